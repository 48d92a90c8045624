"""The embedded reader as a DSPy engine: a deterministic extractive reader, not a language model."""

from __future__ import annotations

import re
from typing import Any

from dspy.lm15 import Message, Request, Response, Usage

from knowgap.lms.embedded.inputs import (
    NotServed,
    Prompt,
    count_tokens,
    distinct,
    read_passage,
    read_prompt,
    read_statement,
    standalone,
    strings,
    write_reply,
)
from knowgap.lms.embedded.questions import plan
from knowgap.lms.embedded.reading import LEAST
from knowgap.lms.embedded.text import fold, mentions, names_in, normal, stems, value_of
from knowgap.lms.engines import InProcessEngine, system_text

_PRONOUN = re.compile(r"\b(?:he|she|him|his|it|its|they|them|their)\b", re.I)


class ExtractiveEngine(InProcessEngine):
    """Replies from the text in a prompt: for trying things out, for tests, and for sweeps without a language model.

    It serves the signatures of `knowgap.signatures`, and any other that asks for an `answer` to a `question`. Equal
    requests get equal replies at any temperature. Usage counts words and punctuation marks; there are no
    log-probabilities.
    """

    def __init__(self) -> None:
        self.settings = {}

    def complete(self, request: Request) -> Response:
        """Reply to one request; raises `SignatureNotServed` for an output field that the reader cannot fill."""
        system = system_text(request)
        user = next((m.text or "" for m in reversed(request.messages) if m.role == "user"), "")
        prompt = read_prompt(system, user)
        reply = write_reply(prompt, fill_fields(prompt))
        asked = count_tokens(system) + sum(count_tokens(m.text or "") for m in request.messages)
        usage = Usage(input_tokens=asked, output_tokens=count_tokens(reply))
        return Response(
            id=None, model=request.model, message=Message.assistant(reply), finish_reason="stop", usage=usage
        )


def fill_fields(prompt: Prompt) -> dict[str, Any]:
    """Fill the output fields; raises `SignatureNotServed` if one is unknown, or lacks the inputs that it needs."""
    given = prompt.inputs.keys()
    for name in prompt.outputs:
        if name not in _FIELDS or not any(set(need.split()) <= given for need in _FIELDS[name][1:]):
            raise NotServed(
                f"the extractive reader does not serve {', '.join(prompt.inputs)} -> {', '.join(prompt.outputs)}: "
                "use a language model for this act (--lm)"
            )
    return {name: _convert(name, _FIELDS[name][0](prompt), kind) for name, kind in prompt.outputs.items()}


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


def _finished(prompt: Prompt) -> bool:
    """Whether the answer is settled, and at most one of its sentences is not written yet."""
    return prompt.found.settled and len(_unwritten(prompt)) <= 1


def _unwritten(prompt: Prompt) -> list[str]:
    return distinct(map(standalone, prompt.found.support), strings(prompt.inputs.get("known", [])))


def _worded(prompt: Prompt) -> str:
    """The answer in the style asked for: a letter, yes or no, sentences, or the short answer itself."""
    found, style = prompt.found, fold(str(prompt.inputs.get("style", "")))
    text = found.text or (found.support[0].title if found.support else "") or "unknown"
    if "letter" in style:
        choices = re.findall(r"(?:^|[\s(])([A-Z])[).:] *(.+?)(?=\s+\(?[A-Z][).:] |$)", prompt.question, re.S)
        words = set(stems(text))
        return max(choices, key=lambda choice: len(words & set(stems(choice[1]))), default=("A", ""))[0]
    if style.startswith("yes or no") and text not in ("yes", "no"):
        return "yes" if found.confidence >= 0.5 else "no"
    if _in_sentences(prompt) and found.support and not prompt.sub_answers:
        # A title with headings cannot be the subject of a sentence.
        told = (each.text if " / " in each.title else standalone(each) for each in found.support)
        return " ".join(dict.fromkeys(told))
    return text


def _in_sentences(prompt: Prompt) -> bool:
    style = fold(str(prompt.inputs.get("style", "")))
    return "sentence" in style and "not a sentence" not in style


def _answer(prompt: Prompt) -> str:
    """The best answer; empty if it is not settled and the prompt has an output field that can say so.

    Sentences beside a verdict are left out if next to nothing speaks for them: they would be about something else.
    """
    unsettled = "missing" in prompt.outputs and not prompt.found.settled
    judged = _in_sentences(prompt) and {"answerable", "supported"} & prompt.outputs.keys()
    if judged and prompt.found.confidence < LEAST:
        return ""
    return "" if unsettled or ("finished" in prompt.outputs and not _finished(prompt)) else _worded(prompt)


def _confidence(prompt: Prompt) -> float:
    return 0.0 if "missing" in prompt.outputs and not prompt.found.settled else round(prompt.found.confidence, 3)


def _missing(prompt: Prompt) -> str:
    return "" if prompt.found.settled else " ".join(prompt.found.open) or prompt.question


def _explanation(prompt: Prompt, closing: bool = False) -> str:
    """The sentences behind the answer, and what is not known or what follows."""
    because = " ".join(map(standalone, prompt.found.support)) or "Nothing that was given says so."
    if closing:
        return f"{because} So the answer is {_worded(prompt)}."
    return because if prompt.found.settled else f"{because} Not known: {_missing(prompt)}"


def _reasoning(prompt: Prompt) -> str:
    """The next sentence of a text, a judgement of each passage, or why the answer is what it is."""
    if prompt.outputs.keys() == {"reasoning"}:
        return _assessment(prompt)
    if "finished" in prompt.outputs and (unwritten := _unwritten(prompt)):
        return unwritten[0]
    return _explanation(prompt, closing=prompt.found.settled or "finished" not in prompt.outputs)


def _statements(prompt: Prompt) -> list[dict[str, Any]]:
    """The useful sentences, or those that the answer rests on, each once with the passages that contain it."""
    said: dict[str, dict[int, None]] = {}
    for sentence in prompt.found.support if "answer" in prompt.outputs else prompt.useful(prompt.passages):
        said.setdefault(standalone(sentence), {})[sentence.source] = None
    return [{"statement": text, "sources": list(sources)} for text, sources in said.items()]


def _excerpts(prompt: Prompt) -> list[str]:
    return [s.text for s in prompt.useful(read_passage("", str(prompt.inputs["passage"])), 3)]


def _complete_question(prompt: Prompt) -> str:
    """The question with its first pronoun replaced by a name from the turn before; in a sentence, by a new name."""
    question, answer = ["", *str(prompt.inputs["conversation"]).splitlines()][-2:]
    thing = [*names_in(question), answer][0]
    new = [name for name in names_in(answer) if name not in question]
    person = [*new, thing][0] if answer.endswith(".") else answer

    def named(match: re.Match[str]) -> str:
        word = match[0].lower()
        name = thing if word in ("it", "its") else person
        return f"{name}'s" if word in ("his", "its", "their") else name

    return _PRONOUN.sub(named, str(prompt.inputs["follow_up"]), count=1)


def _note(prompt: Prompt) -> str:
    """The best note so far, if any, with the passages' useful sentences; beside an answer, one line per passage."""
    if "answer" in prompt.outputs:
        return f"{_assessment(prompt)}\n{_explanation(prompt)}"
    lines = [line for line in str(prompt.inputs.get("best_note", "")).splitlines() if line.strip()]
    old = read_statement("\n".join(lines))
    added = [standalone(sentence) for sentence in prompt.useful([*prompt.passages, *old])]
    return "\n".join(distinct((*lines, *added)))


def _better(prompt: Prompt) -> bool:
    """Whether the new note says something that the best does not."""
    best, new = (
        {normal(s.text) for s in read_statement(str(prompt.inputs[name]))} for name in ("best_note", "new_note")
    )
    return not new <= best


def _queries(prompt: Prompt) -> list[str]:
    """One query for each open question, or names to go on from; beside steps, none for an answer that is settled."""
    most = int(prompt.inputs.get("max_queries") or 3)
    if "steps" in prompt.outputs and prompt.found.settled:
        return []
    return prompt.queries(min(most, len((*prompt.found.open, *prompt.found.guesses)) or most))


def _questions(prompt: Prompt) -> list[str]:
    """Two questions on what a note lacks, or a question's simple sub-questions, with `#1` if the prompt allows it."""
    if "note" in {*prompt.inputs, *prompt.outputs}:
        return (
            []
            if prompt.found.settled and prompt.says("questions", "empty if nothing is missing")
            else prompt.queries(2)
        )
    steps = list(plan(prompt.question).steps)
    alone = [step for step in steps if "#" not in step]
    if prompt.says("questions", "in order"):  # the steps without references; the question itself is asked after them
        return alone if len(steps) > 1 else []
    whole = len(alone) == len(steps) or prompt.says("questions", "#1")
    return steps[:4] if whole and len(steps) > 1 else [prompt.question]


def _steps(prompt: Prompt) -> list[str]:
    """Each fact that the question needs, with its answer and the number of the passage that states it, or MISSING."""
    lines = []
    for fact in prompt.found.facts:
        told = f"{fact.asked} {fact.found.text}: [{fact.found.sentence.source}]" if fact.found else ""
        lines.append(told if fact.settled else f"{fact.asked}: MISSING")
    return lines


def _tool(prompt: Prompt) -> tuple[str, dict[str, str]]:
    """The tool to call and its arguments: a search, until all is settled or after six searches."""
    tool = re.search(r"^ *\(1\) (\w+),.*?It takes arguments \{'(\w+)'", prompt.system, re.M | re.S)
    if prompt.found.settled or tool is None or str(prompt.inputs["trajectory"]).count("Search: ") >= 6:
        return "finish", {}
    return tool[1], {tool[2]: prompt.queries(1)[0]}


def _assessed(prompt: Prompt) -> dict[int, str]:
    """Each passage's first useful sentence by the passage's id; empty if it has none."""
    said = dict.fromkeys(prompt.ids, "")
    for sentence in reversed(prompt.useful(prompt.passages)):
        said[sentence.source] = sentence.text
    return said


def _assessment(prompt: Prompt) -> str:
    return "\n".join(f"[{ident}] {said or 'beside the point'}" for ident, said in _assessed(prompt).items())


def _relevant(prompt: Prompt) -> bool:
    """Whether the passage mentions a name in the question or, if there is no name, contains a useful sentence."""
    sentences, names = read_statement(str(prompt.inputs["passage"])), names_in(prompt.question)
    text = " ".join(f"{s.title} {s.text}" for s in sentences)
    return any(mentions(text, name) for name in names) or (not names and bool(prompt.useful(sentences)))


def _relevant_ids(prompt: Prompt) -> list[int]:
    """The ids of the passages with useful sentences, those that the answer rests on first.

    Beside steps or a verdict on support, only those that state a settled fact.
    """
    order = [sentence.source for sentence in prompt.found.support]
    if {"steps", "supported"} & prompt.outputs.keys():
        stated = [fact.found.sentence.source for fact in prompt.found.facts if fact.found and fact.settled]
        return [ident for ident in dict.fromkeys(stated) if ident in prompt.ids]
    chosen = [ident for ident, useful in _assessed(prompt).items() if useful]
    return sorted(chosen, key=[*order, *chosen].index)


_FIELDS: dict[str, tuple[Any, ...]] = {
    "answer": (_answer, "question"),
    "answerable": (lambda prompt: prompt.found.settled, "question"),
    "better": (_better, "question best_note new_note"),
    "complete_question": (_complete_question, "conversation follow_up"),
    "confidence": (_confidence, "question"),
    "explanation": (_explanation, "question"),
    "finished": (_finished, "question"),
    "knows": (lambda prompt: False, "question", "query", "queries"),
    "missing": (_missing, "question"),
    "needed": (lambda prompt: not prompt.found.settled, "question"),
    "next_thought": (_explanation, "question trajectory"),
    "next_tool_args": (lambda prompt: _tool(prompt)[1], "question trajectory"),
    "next_tool_name": (lambda prompt: _tool(prompt)[0], "question trajectory"),
    "note": (_note, "question passages"),
    "passage": (lambda prompt: "" if "knows" in prompt.outputs else prompt.question, "question", "query", "queries"),
    "queries": (_queries, "question"),
    "query": (
        lambda prompt: "" if "needed" in prompt.outputs and prompt.found.settled else prompt.queries(1)[0],
        "question",
    ),
    "questions": (_questions, "question"),
    "reasoning": (_reasoning, "question"),
    "relevant": (_relevant, "question passage"),
    "relevant_ids": (_relevant_ids, "question passages"),
    "snippet": (lambda prompt: (_excerpts(prompt) or [""])[0], "question passage"),
    "statements": (_statements, "question passages", "queries passages"),
    "steps": (_steps, "question passages"),
    "supported": (lambda prompt: prompt.found.settled, "question passages"),
    "summary": (lambda prompt: " ".join(_excerpts(prompt)), "question passage"),
    "topic": (lambda prompt: ", ".join(names_in(prompt.question)), "question"),
}
"""The function of each field, and sets of inputs, each of which suffices for it."""
