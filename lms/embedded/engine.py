"""The embedded reader as a DSPy engine: a deterministic extractive reader, not a language model."""

from __future__ import annotations

from typing import Any

from dspy.lm15 import Message, Request, Response, Usage
from dspy.utils.exceptions import LMUnsupportedFeatureError

from knowgap.errors import SignatureNotServed
from knowgap.lms.embedded.fields import fill_fields
from knowgap.lms.embedded.prompts import count_tokens, read_prompt, write_reply
from knowgap.lms.engines import AsyncInProcessEngine, InProcessEngine, system_text


class _NotServed(SignatureNotServed, LMUnsupportedFeatureError):
    """`SignatureNotServed` as an error of DSPy's, which DSPy passes on to the caller without a retry."""


class ExtractiveEngine(InProcessEngine):
    """Replies from the text in a prompt: for trying things out, for tests, and for sweeps without a language model.

    It serves the signatures of `knowgap.signatures`, and any other that asks for an `answer` to a `question`. Equal
    requests get equal replies at any temperature. Usage counts words and marks; there are no log-probabilities.
    """

    settings: dict[str, Any] = {}  # noqa: RUF012

    def complete(self, request: Request) -> Response:
        """Reply to one request; one that has a field that the reader cannot fill raises `SignatureNotServed`."""
        system = system_text(request)
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


class AsyncExtractiveEngine(AsyncInProcessEngine):
    """The same reader for `acall`."""

    engine_class = ExtractiveEngine
