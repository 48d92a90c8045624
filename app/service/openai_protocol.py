"""OpenAI's chat completions, answered by a program.

docs/service.md says which messages and settings are read, which are refused, and which have no effect.

A streamed reply sends the steps as `reasoning_content`, then the answer. The answer has the numbers of its sources in
the text, `[1]`. An answer that the documents do not support has none; the nearest passages are named after it.
In addition to OpenAI's fields, a reply has `knowgap`: supported, missing, guess, nearest, passages, sources, citations,
cost, and `understood_as` for a completed question.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal

import orjson
from pydantic import BaseModel, Field, model_validator
from typing_extensions import Self

from knowgap.service.requests import Problem
from knowgap.signatures.types import SubAnswer

_TASK = "### Task:"
"""Begins the prompts with which Open WebUI asks for a title, tags or further questions."""
_NAMED = ("title", "file", "position")
_BESIDE = ("understood_as", "supported", "missing", "guess", "nearest", "passages", "sources", "citations", "cost")


class _Message(BaseModel):
    role: str
    content: str | list[dict[str, Any]] | None = None

    @property
    def parts(self) -> list[dict[str, Any]]:
        return [{"type": "text", "text": self.content}] if isinstance(self.content, str) else self.content or []

    @property
    def text(self) -> str:
        texts = (part.get("text") for part in self.parts)
        return "\n".join(text for text in texts if isinstance(text, str))


class ChatRequest(BaseModel):
    """The fields of a request that have an effect; others are accepted without one."""

    model: str
    messages: list[_Message] = Field(min_length=1, max_length=2000)
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    n: Literal[1] | None = 1
    tools: list[Any] | None = None
    tool_choice: Any = None
    logprobs: Literal[False] | None = False
    response_format: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _only_answers(self) -> Self:
        if self.tools and self.tool_choice != "none":
            raise ValueError('answers come from the documents, and no tools are called: send "tool_choice": "none"')
        if self.response_format is not None and self.response_format.get("type") != "text":
            raise ValueError("response_format: answers are plain text, and no JSON can be asked for: leave this out")
        return self

    @property
    def is_task(self) -> bool:
        """Whether the last message is a client's own prompt for a language model, and no question."""
        return self.messages[-1].text.lstrip().startswith(_TASK)

    def question(self) -> str:
        """The text of the last message.

        Raises:
            Problem: it is not the user's, or not a text (400).
        """
        last = self.messages[-1]
        if last.role != "user":
            raise Problem(400, f"the last message is the question: its role must be 'user', not {last.role!r}")
        if others := sorted({str(part.get("type")) for part in last.parts} - {"text"}):
            raise Problem(400, f"a question must be plain text: leave out {', '.join(others)}")
        if not all(isinstance(part.get("text"), str) for part in last.parts):
            raise Problem(400, "the text of each part of a question must be a string")
        return last.text

    def said(self) -> list[SubAnswer]:
        """The questions of the user with the assistant's answers, the oldest first."""
        return [
            SubAnswer(question=asked.text, answer=answer.text)
            for asked, answer in pairwise(self.messages[:-1])
            if (asked.role, answer.role) == ("user", "assistant") and asked.text.strip() and answer.text.strip()
        ]


class Reply:
    """The reply to a request, whole or in chunks."""

    def __init__(self, asked: ChatRequest) -> None:
        self._asked = asked
        self._head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": asked.model}
        self._delta: dict[str, Any] = {"role": "assistant"}  # of the first chunk

    def whole(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """The reply with an answer."""
        message = {"role": "assistant", "content": _text(answer), "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        head = {**self._head, "object": "chat.completion"}
        return {**head, "choices": [choice], "usage": _usage(answer), "knowgap": _beside(answer)}

    def event(self, name: str, content: Mapping[str, Any]) -> bytes:
        """The server-sent events of a step, of the answer, which are the last ones, or of an error."""
        if name == "error":
            return _event(content)
        if name == "step":
            return self._chunk({"content": None, "reasoning_content": "\n  ".join(content["text"]) + "\n"})
        events = [self._chunk({"content": _text(content)}), self._chunk({}, "stop", knowgap=_beside(content))]
        if (self._asked.stream_options or {}).get("include_usage"):
            head = {**self._head, "object": "chat.completion.chunk"}
            events.append(_event({**head, "choices": [], "usage": _usage(content)}))
        return b"".join([*events, b"data: [DONE]\n\n"])

    def _chunk(self, delta: Mapping[str, Any], reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": {**self._delta, **delta}, "finish_reason": reason, "logprobs": None}
        self._delta = {}
        return _event({**self._head, "object": "chat.completion.chunk", "choices": [choice], **more})


def _text(answer: Mapping[str, Any]) -> str:
    """The answer, with the nearest passages if it is not supported."""
    nearest = (", ".join(each[name] for name in _NAMED if name in each) for each in answer["nearest"])
    return answer["cited_answer"] + ("\n\nNearest passages: " + "; ".join(nearest) if answer["nearest"] else "")


def _beside(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {name: answer[name] for name in _BESIDE if name in answer}


def _usage(answer: Mapping[str, Any]) -> dict[str, int]:
    cost = answer["cost"]
    prompt, completion = cost["prompt_tokens"], cost["completion_tokens"]
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _event(content: Mapping[str, Any]) -> bytes:
    return b"data: %s\n\n" % orjson.dumps(content)
