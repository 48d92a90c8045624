"""Language models that stand in for real ones: a server with a fixed delay, and a reader that knows the evidence."""

from __future__ import annotations

from dspy.lm15 import Message, Request, Response, Usage

from knowgap.lms.embedded.inputs import Prompt, read_prompt


def read_request(request: Request) -> Prompt:
    """Read the prompt of a request to a DSPy engine."""
    return read_prompt(str(request.system or ""), request.messages[-1].text or "")


def respond(request: Request, text: str) -> Response:
    """Make the reply to a request; words count as tokens."""
    asked = request.messages[-1].text or ""
    usage = Usage(input_tokens=len(asked.split()), output_tokens=len(text.split()))
    return Response(id=None, model=request.model, message=Message.assistant(text), finish_reason="stop", usage=usage)
