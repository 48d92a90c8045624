"""OpenAI's chat completions, answered by a program.

docs/service.md says which messages and settings are read, which are refused, and which have no effect.

A streamed reply sends the steps as `reasoning_content`, then the answer. The answer has the numbers of its sources in
the text, `[1]`, and an annotation for each, `url_citation`, with title, file and page, and the sentence in `content`.
An answer that the documents do not support has neither; the nearest passages are named after it.
In addition to OpenAI's fields, a reply has `knowgap`: supported, missing, guess, nearest, passages, sources, citations,
cost, `unread_messages`, `unread_settings`, and `understood_as` for a completed question.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from itertools import accumulate, pairwise
from typing import Annotated, Any, Literal
from urllib.parse import quote

import orjson
from pydantic import BaseModel, ConfigDict, Field

from knowgap.retrieval.window import embedded_window
from knowgap.service.answering import MAX_QUESTION, MAX_SAID, Answer, StepTold
from knowgap.service.requests import Problem
from knowgap.service.searching import Day, Patterns
from knowgap.signatures.types import SubAnswer

_PROMPT = "[[ ## "  # begins the marks of fields in DSPy's prompts


class _Part(BaseModel):
    type: str
    text: str = ""


class _Message(BaseModel):
    role: str
    content: str | list[_Part] | None = None

    def parts(self) -> list[_Part]:
        return [_Part(type="text", text=self.content)] if isinstance(self.content, str) else self.content or []


class _Format(BaseModel):
    type: Literal["text"]


class _StreamOptions(BaseModel):
    include_usage: bool | None = False


class ChatRequest(BaseModel):
    """The fields of a request that have an effect; others are accepted without one."""

    model_config = ConfigDict(extra="allow")

    model: str
    messages: list[_Message] = Field(min_length=1, max_length=2000)
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    n: Literal[1] | None = 1
    tools: list[Any] | None = Field(default=None, max_length=0)
    logprobs: Literal[False] | None = False
    response_format: _Format | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    stop: str | Annotated[list[str], Field(max_length=16)] | None = None
    citations: bool = True  # this field and those below are not OpenAI's
    files: Patterns = ()
    since: Day = None

    def question(self) -> str:
        """The text of the last message.

        Raises:
            ValueError: it is not the user's, or not a text.
        """
        last = self.messages[-1]
        if any(_PROMPT in part.text for message in self.messages for part in message.parts()):
            raise ValueError(
                "this is a prompt of dspy.Predict, which wants a language model: this address answers questions from "
                "an index; send the question alone, as in dspy.LM(…)(question)"
            )
        if last.role != "user":
            raise ValueError(f"the last message is the question: its role must be 'user', not {last.role!r}")
        parts = last.parts()
        if others := sorted({part.type for part in parts} - {"text"}):
            raise ValueError(f"a question must be plain text: leave out {', '.join(others)}")
        return "\n".join(part.text for part in parts)

    def sampling(self) -> dict[str, Any]:
        """The settings that are passed to the language model."""
        return self.model_dump(include={"temperature", "top_p", "seed"}, exclude_none=True)

    def shortened(self, text: str) -> tuple[str, str]:
        """The text up to `stop` and `max_tokens`, and why it ends there; tokens are those of the embedded encoder."""
        for stop in [self.stop] if isinstance(self.stop, str) else self.stop or []:
            text = text.partition(stop)[0] if stop else text
        if (limit := self.max_completion_tokens or self.max_tokens) is not None:
            ends = embedded_window().tokenizer.encode(text, add_special_tokens=False).offsets
            if len(ends) > limit:
                return text[: ends[limit - 1][1]], "length"
        return text, "stop"

    def said(self) -> list[SubAnswer]:
        """The last questions of the user with the assistant's answers, the oldest first, as many as may be read."""
        texts = [(message.role, "\n".join(part.text for part in message.parts())) for message in self.messages[:-1]]
        answered = [
            SubAnswer(question=asked, answer=answer)
            for (first, asked), (second, answer) in pairwise(texts)
            if (first, second) == ("user", "assistant") and asked.strip() and answer.strip()
        ]
        lengths = accumulate(len(turn.question) + len(turn.answer) for turn in reversed(answered))
        kept = sum(length <= MAX_QUESTION for length in lengths)
        return answered[len(answered) - min(kept, MAX_SAID) :]


def completion(answer: Mapping[str, Any], asked: ChatRequest, base: str) -> dict[str, Any]:
    """The whole reply; `base` is the address of the server."""
    message, reason = _message(answer, asked, base)
    choice = {"index": 0, "message": {"role": "assistant", **message, "refusal": None}, "finish_reason": reason}
    return {
        **_head("chat.completion", asked),
        "choices": [{**choice, "logprobs": None}],
        "usage": _usage(answer),
        "knowgap": _beside(answer, asked),
    }


async def completion_chunks(
    items: AsyncIterator[StepTold | Answer], asked: ChatRequest, base: str
) -> AsyncIterator[bytes]:
    """The reply as server-sent events."""
    head = _head("chat.completion.chunk", asked)
    delta: dict[str, Any] = {"role": "assistant"}
    try:
        async for item in items:
            if not isinstance(item, Answer):
                text = "\n  ".join(item["text"]) + "\n"
                yield _chunk(head, {**delta, "content": None, "reasoning_content": text})
                delta = {}
                continue
            message, reason = _message(item, asked, base)
            yield _chunk(head, {**delta, **message})
            yield _chunk(head, {}, finish_reason=reason, knowgap=_beside(item, asked))
            if asked.stream_options is not None and asked.stream_options.include_usage:
                yield _event({**head, "choices": [], "usage": _usage(item)})
            yield b"data: [DONE]\n\n"
    except Problem as problem:
        yield _event(problem.record())


def _head(kind: str, asked: ChatRequest) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": asked.model}


def _message(answer: Mapping[str, Any], asked: ChatRequest, base: str) -> tuple[dict[str, Any], str]:
    """The answer with an annotation of OpenAI's form for each number of a source, and the reason for its end."""
    text = answer.get("cited_answer", answer["answer"])
    if nearest := answer["nearest"]:
        named = (
            [source["title"], *(source[name] for name in ("file", "position") if name in source)] for source in nearest
        )
        text += "\n\nNearest passages: " + "; ".join(", ".join(parts) for parts in named)
    text, reason = asked.shortened(text)
    sources = {str(source["number"]): source for source in answer.get("sources", ())}
    annotations = []
    for number in re.finditer(r"\[(\d+)\]", text):
        if (source := sources.get(number[1])) is not None:
            place = ", ".join(source[name] for name in ("file", "position") if name in source)
            named = f"urn:knowgap:passage:{quote(source['passage_id'], safe='')}"
            cited = {
                "start_index": number.start(),
                "end_index": number.end(),
                "title": f"{source['title']} ({place})" if place else source["title"],
                "url": base + source["link"] if "link" in source else named,
                **({"content": source["sentence"]} if "sentence" in source else {}),
            }
            annotations.append({"type": "url_citation", "url_citation": cited})
    return {"content": text, "annotations": annotations}, reason


def _usage(answer: Mapping[str, Any]) -> dict[str, int]:
    cost = answer["cost"]
    prompt, completion = cost["prompt_tokens"], cost["completion_tokens"]
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _beside(answer: Mapping[str, Any], asked: ChatRequest) -> dict[str, Any]:
    names = ("understood_as", "supported", "missing", "guess", "nearest", "passages", "sources", "citations", "cost")
    kept = {name: answer[name] for name in names if name in answer}
    unread = {"unread_messages": len(asked.messages) - 1 - 2 * len(asked.said())}
    return {**kept, **unread, "unread_settings": sorted(asked.model_extra or ())}


def _chunk(head: Mapping[str, Any], delta: Mapping[str, Any], finish_reason: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
    return _event({**head, "choices": [choice], **more})


def _event(content: Mapping[str, Any]) -> bytes:
    return b"data: %s\n\n" % orjson.dumps(content)
