"""A stand-in for a language model that reads DSPy's prompts and answers by rule."""

from __future__ import annotations

from typing import Any

from dspy.lm15 import Message, Request, Response, Usage

from knowgap.lms.embedded.inputs import Prompt, read_prompt, write_reply
from knowgap.lms.engines import system_text


def read_request(request: Request) -> Prompt:
    """Read the prompt of a request."""
    return read_prompt(system_text(request), request.messages[-1].text or "")


def respond(request: Request, text: str) -> Response:
    """Make the reply to a request; words count as tokens."""
    asked = request.messages[-1].text or ""
    usage = Usage(input_tokens=len(asked.split()), output_tokens=len(text.split()))
    return Response(id=None, model=request.model, message=Message.assistant(text), finish_reason="stop", usage=usage)


class PromptEngine:
    """The base of DSPy engines that give the value of each output field that a prompt asks for."""

    def outputs(self, prompt: Prompt) -> dict[str, Any]:
        """The output fields by name."""
        raise NotImplementedError

    def complete(self, request: Request) -> Response:
        """Reply to one request."""
        prompt = read_request(request)
        return respond(request, write_reply(prompt, self.outputs(prompt)))
