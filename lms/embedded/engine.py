"""The embedded reader as a DSPy engine: a deterministic extractive reader, not a language model.

It answers the acts of `knowgap.signatures` (and any other signature that asks for an `answer` to a `question`) from the
text in its prompt alone, by word overlap, names, dates and chains of relations. It is for trying things out, for tests
and for sweeps where no language model is at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dspy.lm15 import Message, Request, Response, Usage, response_to_events
from dspy.utils.exceptions import LMUnsupportedFeatureError

from knowgap.errors import SignatureNotServed
from knowgap.lms.embedded.acts import perform
from knowgap.lms.embedded.prompts import count_tokens, read_prompt, write_reply

__all__ = ["AsyncExtractiveEngine", "ExtractiveEngine"]


class _NotServed(SignatureNotServed, LMUnsupportedFeatureError):
    """DSPy hands its own errors to the caller as they are, without a retry; this is one of them and one of ours."""


class ExtractiveEngine:
    """Answers a request from its own text.

    Usage counts words and marks, not tokens of any model. Log-probabilities are not given. Equal requests get equal
    replies, whatever the temperature.

    Raises:
        SignatureNotServed: from `complete`, for an act outside the repertoire.
    """

    def complete(self, request: Request) -> Response:
        """One reply to one request."""
        system, user = _text(request.system), _last_user(request)
        try:
            prompt = read_prompt(system, user)
            reply = write_reply(prompt, perform(prompt))
        except SignatureNotServed as refusal:
            raise _NotServed(str(refusal)) from None
        asked = count_tokens(system) + sum(count_tokens(m.text or "") for m in request.messages)
        usage = Usage(input_tokens=asked, output_tokens=count_tokens(reply))
        return Response(
            id=None, model=request.model, message=Message.assistant(reply), finish_reason="stop", usage=usage
        )

    def stream(self, request: Request) -> Iterator[Any]:
        """The same reply as a stream of events."""
        return iter(response_to_events(self.complete(request)))

    def close(self) -> None:
        """Nothing is held open."""

    def dump_state(self) -> dict[str, Any]:
        """The engine has no settings."""
        return {}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> ExtractiveEngine:
        """The inverse of `dump_state`."""
        return cls()


class AsyncExtractiveEngine:
    """The same reader for `acall`; a reply takes milliseconds, so it is given on the loop."""

    def __init__(self) -> None:
        self._engine = ExtractiveEngine()

    async def complete(self, request: Request) -> Response:
        """One reply to one request."""
        return self._engine.complete(request)

    async def stream(self, request: Request) -> Any:
        """The same reply as a stream of events."""
        for event in self._engine.stream(request):
            yield event

    async def aclose(self) -> None:
        """Nothing is held open."""

    def dump_state(self) -> dict[str, Any]:
        """The engine has no settings."""
        return {}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> AsyncExtractiveEngine:
        """The inverse of `dump_state`."""
        return cls()


def _text(system: Any) -> str:
    if system is None or isinstance(system, str):
        return system or ""
    return "".join(getattr(part, "text", "") for part in system)


def _last_user(request: Request) -> str:
    return next((m.text or "" for m in reversed(request.messages) if m.role == "user"), "")
