"""What stands in for language models (a server with a fixed delay, a reader that knows the evidence) and indexes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dspy.lm15 import Message, Request, Response, Usage

from knowgap.lms.embedded.inputs import Prompt, read_prompt
from knowgap.retrieval.passage import Hit, NeverCopied, Passage


class Finder(NeverCopied):
    """A retriever that finds by a function, from a query and the number of hits to passages, and takes no time."""

    def __init__(self, find: Callable[[str, int], Sequence[Passage]]) -> None:
        self._find = find

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return what is found for each query."""
        return [[Hit(passage, 1.0 / n, n) for n, passage in enumerate(self._find(q, k), 1)] for q in queries]


class Engine:
    """A DSPy engine that replies by a function, from a prompt as read and as text; words count as tokens."""

    def __init__(self, reply: Callable[[Prompt, str], str]) -> None:
        self._reply = reply

    def complete(self, request: Request) -> Response:
        """Reply to one request."""
        asked = request.messages[-1].text or ""
        text = self._reply(read_prompt(str(request.system or ""), asked), asked)
        usage = Usage(input_tokens=len(asked.split()), output_tokens=len(text.split()))
        message = Message.assistant(text)
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)
