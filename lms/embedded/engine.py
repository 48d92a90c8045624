"""The embedded reader as a DSPy engine: a deterministic extractive reader, not a language model.

It answers the signatures of `knowgap.signatures`, and any other that asks for an `answer` to a `question`, from the
text in the prompt alone: by word overlap, names, dates and chains of relations. Use it to try things out, for tests,
and for sweeps without a language model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dspy.lm15 import Message, Request, Response, Usage, response_to_events
from dspy.utils.exceptions import LMUnsupportedFeatureError

from knowgap.errors import SignatureNotServed
from knowgap.lms.embedded.acts import REPERTOIRE
from knowgap.lms.embedded.prompts import count_tokens, read_prompt, write_reply

__all__ = ["AsyncExtractiveEngine", "ExtractiveEngine"]


class _NotServed(SignatureNotServed, LMUnsupportedFeatureError):
    """`SignatureNotServed` as an error of DSPy's, which DSPy passes on to the caller without a retry."""


class ExtractiveEngine:
    """Replies to a request from the text in it.

    Usage counts words and marks instead of tokens. There are no log-probabilities. Equal requests get equal replies at
    any temperature.
    """

    def complete(self, request: Request) -> Response:
        """Reply to one request.

        Raises:
            SignatureNotServed: the reader has no act for the prompt.
        """
        system, user = _text(request.system), _last_user(request)
        try:
            prompt = read_prompt(system, user)
            reply = write_reply(prompt, REPERTOIRE.perform(prompt))
        except SignatureNotServed as refusal:
            raise _NotServed(str(refusal)) from None
        asked = count_tokens(system) + sum(count_tokens(m.text or "") for m in request.messages)
        usage = Usage(input_tokens=asked, output_tokens=count_tokens(reply))
        return Response(
            id=None, model=request.model, message=Message.assistant(reply), finish_reason="stop", usage=usage
        )

    def stream(self, request: Request) -> Iterator[Any]:
        """Give the reply of `complete` as a stream of events."""
        return iter(response_to_events(self.complete(request)))

    def close(self) -> None:
        """Do nothing: the reader holds nothing open."""

    def dump_state(self) -> dict[str, Any]:
        """Return no settings: the engine has none."""
        return {}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> ExtractiveEngine:
        """Make an engine from what `dump_state` returned."""
        return cls()


class AsyncExtractiveEngine:
    """The same reader for `acall`. A reply takes milliseconds, so it is computed on the event loop."""

    def __init__(self) -> None:
        self._engine = ExtractiveEngine()

    async def complete(self, request: Request) -> Response:
        """Reply to one request."""
        return self._engine.complete(request)

    async def stream(self, request: Request) -> Any:
        """Give the reply of `complete` as a stream of events."""
        for event in self._engine.stream(request):
            yield event

    async def aclose(self) -> None:
        """Do nothing: the reader holds nothing open."""

    def dump_state(self) -> dict[str, Any]:
        """Return no settings: the engine has none."""
        return {}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> AsyncExtractiveEngine:
        """Make an engine from what `dump_state` returned."""
        return cls()


def _text(system: Any) -> str:
    if system is None or isinstance(system, str):
        return system or ""
    return "".join(getattr(part, "text", "") for part in system)


def _last_user(request: Request) -> str:
    return next((m.text or "" for m in reversed(request.messages) if m.role == "user"), "")
