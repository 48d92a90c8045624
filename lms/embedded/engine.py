"""The embedded reader as a DSPy engine: a deterministic extractive reader, not a language model."""

from __future__ import annotations

from typing import Any

from dspy.lm15 import Message, Request, Response, Usage, response_to_events
from dspy.utils.exceptions import LMUnsupportedFeatureError

from knowgap.errors import SignatureNotServed
from knowgap.lms.embedded.fields import fill_fields
from knowgap.lms.prompts import count_tokens, read_prompt, write_reply

__all__ = ["AsyncExtractiveEngine", "ExtractiveEngine"]


class _NotServed(SignatureNotServed, LMUnsupportedFeatureError):
    """`SignatureNotServed` as an error of DSPy's, which DSPy passes on to the caller without a retry."""


class ExtractiveEngine:
    """Replies from the text in a prompt: for trying things out, for tests, and for sweeps without a language model.

    It serves the signatures of `knowgap.signatures`, and any other that asks for an `answer` to a `question`. Equal
    requests get equal replies at any temperature. Usage counts words and marks; there are no log-probabilities.
    """

    def complete(self, request: Request) -> Any:
        """Reply to one request; one that has a field that the reader cannot fill raises `SignatureNotServed`."""
        system = request.system or ""
        system = system if isinstance(system, str) else "".join(getattr(part, "text", "") for part in system)
        user = next((m.text or "" for m in reversed(request.messages) if m.role == "user"), "")
        try:
            prompt = read_prompt(system, user)
            reply = write_reply(prompt, fill_fields(prompt))
        except SignatureNotServed as refusal:
            raise _NotServed(str(refusal)) from None
        asked = count_tokens(system) + sum(count_tokens(m.text or "") for m in request.messages)
        usage = Usage(input_tokens=asked, output_tokens=count_tokens(reply))
        return Response(
            id=None, model=request.model, message=Message.assistant(reply), finish_reason="stop", usage=usage
        )

    def stream(self, request: Request) -> Any:
        """Give the reply of `complete` as a stream of events."""
        return iter(response_to_events(self.complete(request)))

    def dump_state(self) -> dict[str, Any]:
        """Return no settings: the engine has none."""
        return {}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> Any:
        """Make an engine from what `dump_state` returned."""
        return cls()


class AsyncExtractiveEngine(ExtractiveEngine):
    """The same reader for `acall`. A reply takes milliseconds, so it is computed on the event loop."""

    async def complete(self, request: Request) -> Response:
        """Reply to one request."""
        return super().complete(request)

    async def stream(self, request: Request) -> Any:
        """Give the reply of `complete` as a stream of events."""
        for event in response_to_events(super().complete(request)):
            yield event
