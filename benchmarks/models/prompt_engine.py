"""A stand-in for a language model that reads DSPy's prompts and answers by rule."""

from __future__ import annotations

from typing import Any

from dspy.lm15 import Message, Request, Response, Usage

from knowgap.lms.embedded.inputs import Prompt, read_prompt, write_reply


class PromptEngine:
    """The base of DSPy engines that give the value of each output field that a prompt asks for."""

    def outputs(self, prompt: Prompt) -> dict[str, Any]:
        """The output fields by name."""
        raise NotImplementedError

    def complete(self, request: Request) -> Response:
        """Reply to one request."""
        system = request.system if isinstance(request.system, str) else "".join(p.text for p in request.system or ())
        user = next((m.text or "" for m in reversed(request.messages) if m.role == "user"), "")
        prompt = read_prompt(system, user)
        reply = write_reply(prompt, self.outputs(prompt))
        usage = Usage(input_tokens=len(user.split()), output_tokens=len(reply.split()))
        return Response(
            id=None, model=request.model, message=Message.assistant(reply), finish_reason="stop", usage=usage
        )

    def close(self) -> None:
        """Nothing is held open."""
