"""The embedded reader as a DSPy engine: a deterministic extractive reader, not a language model."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dspy.lm15 import Message, Request, Response, Usage

from knowgap.lms.embedded.inputs import (
    NotServed,
    Prompt,
    count_tokens,
    distinct,
    read_prompt,
    read_statement,
    strings,
    write_reply,
)
from knowgap.lms.embedded.questions import plan
from knowgap.lms.embedded.reading import LEAST
from knowgap.lms.embedded.text import fold, mentions, names_in, standalone, value_of
from knowgap.lms.engines import InProcessEngine

_PRONOUN = re.compile(r"\b(?:he|she|him|his|it|its|they|them|their)\b", re.I)


class ExtractiveEngine(InProcessEngine):
    """Replies from the text in a prompt: for trying things out, for tests, and for sweeps without a language model.

    It serves the signatures of `knowgap.signatures`, and any other that asks for an `answer` to a `question`. Equal
    requests get equal replies at any temperature. Usage counts words and punctuation marks; there are no
    log-probabilities.
    """

    def complete(self, request: Request) -> Response:
        """Reply to one request; raises `SignatureNotServed` for an output field that the reader cannot fill."""
        system = str(request.system or "")
        user = next((m.text or "" for m in reversed(request.messages) if m.role == "user"), "")
        prompt = read_prompt(system, user)
        reply = write_reply(prompt, fill_fields(prompt))
        asked = count_tokens(system) + sum(count_tokens(m.text or "") for m in request.messages)
        usage = Usage(input_tokens=asked, output_tokens=count_tokens(reply))
        return Response(
            id=None, model=request.model, message=Message.assistant(reply), finish_reason="stop", usage=usage
        )


def fill_fields(prompt: Prompt) -> dict[str, Any]:
    """Fill the output fields; raises `SignatureNotServed` if one is unknown, or there is no question."""
    if not prompt.outputs.keys() <= _FIELDS.keys() or not prompt.inputs.keys() & {"question", "query", *_ASKED_BY}:
        raise NotServed(
            f"the embedded reader does not serve {', '.join(prompt.inputs)} -> {', '.join(prompt.outputs)}: "
            "name a language model (--lm)"
        )
    return {name: _convert(name, _FIELDS[name](prompt), kind) for name, kind in prompt.outputs.items()}


def _convert(name: str, value: Any, kind: str) -> Any:
    """Convert a value to the type of its field."""
    if kind == "NoulEvidence":
        return {"noul": 0.9 if value in (True, "yes") else 0.1}
    if name == "confidence" and kind == "int":
        return max(1, min(5, round(1 + 4 * float(value))))
    if kind == "bool" and isinstance(value, str):
        return value.lower() == "yes"
    if kind in ("int", "float") and isinstance(value, str):
        return (int if kind == "int" else float)(next(iter(value_of(value)), 0))
    if kind.startswith("list[") and isinstance(value, str):
        return [value] if value else []
    return str(value) if kind == "str" else value


def _answer(prompt: Prompt) -> str:
    """The best answer in the style asked for; empty if it is not settled and there is a field for what is missing.

    Sentences beside a verdict are left out if next to nothing speaks for them: they would be about something else.
    """
    found, style = prompt.found, fold(str(prompt.inputs.get("style", "")))
    if "missing" in prompt.outputs and not found.settled:
        return ""
    text = found.text or (found.support[0].title if found.support else "") or "unknown"
    if style.removeprefix("only ").startswith("yes or no") and text not in ("yes", "no"):
        return "yes" if found.settled else "no"
    if "sentence" not in style or "not a sentence" in style:
        return text
    if {"answerable", "supported"} & prompt.outputs.keys() and found.confidence < LEAST:
        return ""
    # A title with headings cannot be the subject of a sentence.
    told = (each.text if " / " in each.title else standalone(each) for each in found.support)
    return text if prompt.sub_answers else " ".join(dict.fromkeys(told)) or text


def _confidence(prompt: Prompt) -> float:
    return 0.0 if "missing" in prompt.outputs and not prompt.found.settled else round(prompt.found.confidence, 3)


def _missing(prompt: Prompt) -> str:
    return "" if prompt.found.settled else " ".join(prompt.found.open) or prompt.question


def _explanation(prompt: Prompt) -> str:
    """The sentences behind the answer, and what is not known."""
    because = " ".join(map(standalone, prompt.found.support)) or "Nothing that was given says so."
    return because if prompt.found.settled else f"{because} Not known: {_missing(prompt)}"


def _unwritten(prompt: Prompt) -> list[str]:
    return distinct(map(standalone, prompt.found.support), strings(prompt.inputs.get("known", [])))


def _statements(prompt: Prompt) -> list[dict[str, Any]]:
    """The useful sentences, each once with the passages that contain it."""
    said: dict[str, dict[int, None]] = {}
    for sentence in prompt.useful(prompt.passages):
        said.setdefault(standalone(sentence), {})[sentence.source] = None
    return [{"statement": text, "sources": list(sources)} for text, sources in said.items()]


def _excerpts(prompt: Prompt) -> list[str]:
    """The useful sentences of the one passage."""
    return [s.text for s in prompt.useful(read_statement(str(prompt.inputs.get("passage", ""))))]


def _relevant(prompt: Prompt) -> bool:
    """Whether the one passage mentions a name in the question; if there is none, whether it has a useful sentence."""
    passage, names = str(prompt.inputs.get("passage", "")), names_in(prompt.question)
    return any(mentions(passage, name) for name in names) if names else bool(_excerpts(prompt))


def _complete_question(prompt: Prompt) -> str:
    """The follow-up with its first pronoun replaced: `it` by what was asked about, others by a name in the reply."""
    question, reply = ["", *str(prompt.inputs.get("conversation", "")).splitlines()][-2:]
    thing = [*names_in(question), reply][0]
    person = [*(name for name in names_in(reply) if name not in question), thing][0]

    def named(match: re.Match[str]) -> str:
        name = thing if match[0].lower() in ("it", "its") else person
        return f"{name}'s" if match[0].lower() in ("his", "its", "their") else name

    return _PRONOUN.sub(named, str(prompt.inputs.get("follow_up", "")), count=1)


def _note(prompt: Prompt) -> str:
    """The best note so far, if any, with the passages' useful sentences."""
    lines = str(prompt.inputs.get("best_note", "")).splitlines()
    told = prompt.useful([*prompt.passages, *read_statement("\n".join(lines))])
    return "\n".join(distinct((*lines, *map(standalone, told))))


def _queries(prompt: Prompt) -> list[str]:
    """One query for each open question, or names to go on from; beside steps, none for an answer that is settled."""
    most = int(prompt.inputs.get("max_queries") or 3)
    if "steps" in prompt.outputs and prompt.found.settled:
        return []
    return prompt.queries(min(most, len((*prompt.found.open, *prompt.found.guesses)) or most))


def _questions(prompt: Prompt) -> list[str]:
    """Two questions on what a note lacks, or the simple questions of a plan that stand alone, if it has several."""
    if "note" in prompt.inputs:
        return prompt.queries(2)
    steps = plan(prompt.question).steps
    return [step for step in steps if "#" not in step] if len(steps) > 1 else []


def _steps(prompt: Prompt) -> list[str]:
    """Each fact that the question needs, with its answer and the number of the passage that states it, or MISSING."""
    lines = []
    for fact in prompt.found.facts:
        told = f"{fact.asked} {fact.found.text}: [{fact.found.sentence.source}]" if fact.found else ""
        lines.append(told if fact.settled else f"{fact.asked}: MISSING")
    return lines


def _relevant_ids(prompt: Prompt) -> list[int]:
    """The ids of the passages with useful sentences; beside steps or a verdict, of those that state a settled fact."""
    judged = {"steps", "supported"} & prompt.outputs.keys()
    useful = prompt.found.stated if judged else prompt.useful(prompt.passages)
    return list(dict.fromkeys(sentence.source for sentence in useful))


_ASKED_BY = ("queries", "conversation")  # inputs that take the place of a question
_FIELDS: dict[str, Callable[[Prompt], Any]] = {
    "answer": _answer,
    "answerable": lambda prompt: prompt.found.settled,
    "better": lambda prompt: prompt.inputs.get("new_note") != prompt.inputs.get("best_note"),
    "complete_question": _complete_question,
    "confidence": _confidence,
    "explanation": _explanation,
    "finished": lambda prompt: prompt.found.settled and len(_unwritten(prompt)) <= 1,
    "knows": lambda prompt: False,
    "missing": _missing,
    "needed": lambda prompt: not prompt.found.settled,
    "next_thought": _explanation,
    "next_tool_args": lambda prompt: {} if prompt.found.settled else {"query": prompt.queries(1)[0]},
    "next_tool_name": lambda prompt: "finish" if prompt.found.settled else "search",
    "note": _note,
    "passage": lambda prompt: "" if "knows" in prompt.outputs else prompt.question,
    "queries": _queries,
    "query": lambda prompt: "" if "needed" in prompt.outputs and prompt.found.settled else prompt.queries(1)[0],
    "questions": _questions,
    "reasoning": lambda prompt: (
        (_unwritten(prompt) or [_explanation(prompt)])[0] if "finished" in prompt.outputs else _explanation(prompt)
    ),
    "relevant": _relevant,
    "relevant_ids": _relevant_ids,
    "snippet": lambda prompt: "".join(_excerpts(prompt)[:1]),
    "statements": _statements,
    "steps": _steps,
    "summary": lambda prompt: " ".join(_excerpts(prompt)[:3]),
    "supported": lambda prompt: prompt.found.settled,
    "topic": lambda prompt: ", ".join(names_in(prompt.question)),
}
"""What fills each field."""
