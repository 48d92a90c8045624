"""The value of each output field that a prompt can ask for, from the prompt's inputs."""

from __future__ import annotations

import re
from typing import Any

from knowgap.errors import SignatureNotServed
from knowgap.lms.embedded.inputs import Request, distinct, read_passage, read_statement, standalone, strings
from knowgap.lms.embedded.prompts import Prompt
from knowgap.lms.embedded.questions import plan
from knowgap.lms.embedded.text import analyse, dates, fold, mentions, name_words, normal, stems, value_of


def fill_fields(prompt: Prompt) -> dict[str, Any]:
    """Fill the output fields; `SignatureNotServed` says that one is not known, or lacks the inputs that it needs."""
    given = prompt.inputs.keys()
    for name in prompt.outputs:
        if name not in _FIELDS or not any(set(need.split()) <= given for need in _FIELDS[name][1:]):
            raise SignatureNotServed(
                f"the extractive reader does not serve {', '.join(prompt.inputs)} -> {', '.join(prompt.outputs)}: "
                "use a language model for this act (--lm)"
            )
    request = Request(prompt)
    return {name: _convert(name, _FIELDS[name][0](request), kind) for name, kind in prompt.outputs.items()}


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


def _finished(request: Request) -> bool:
    """Whether the answer is settled, and at most one of its sentences is not written yet."""
    return request.found.settled and len(_unwritten(request)) <= 1


def _unwritten(request: Request) -> list[str]:
    return distinct(map(standalone, request.found.support), strings(request.inputs.get("known", [])))


def _worded(request: Request) -> str:
    """The answer in the style asked for: a letter, yes or no, sentences, or the short answer itself."""
    found, style = request.found, fold(str(request.inputs.get("style", "")))
    text = found.text or (found.support[0].title if found.support else "") or "unknown"
    if "letter" in style:
        choices = re.findall(r"(?:^|[\s(])([A-Z])[).:] *(.+?)(?=\s+\(?[A-Z][).:] |$)", request.question, re.S)
        words = set(stems(text))
        return max(choices, key=lambda choice: len(words & set(stems(choice[1]))), default=("A", ""))[0]
    if style.startswith("yes or no") and text not in ("yes", "no"):
        return "yes" if found.confidence >= 0.5 else "no"
    if "sentence" in style and "no sentence" not in style and found.support:
        return " ".join(dict.fromkeys(standalone(sentence) for sentence in found.support))
    return text


def _answer(request: Request) -> str:
    """The best answer; none where the prompt can say that it is not settled yet."""
    unsettled = "missing" in request.outputs and not request.found.settled
    return "" if unsettled or ("finished" in request.outputs and not _finished(request)) else _worded(request)


def _confidence(request: Request) -> float:
    return 0.0 if "missing" in request.outputs and not request.found.settled else round(request.found.confidence, 3)


def _missing(request: Request) -> str:
    return "" if request.found.settled else " ".join(request.found.open) or request.question


def _explanation(request: Request, closing: bool = False) -> str:
    """The sentences behind the answer, and what is not known or what follows."""
    because = " ".join(map(standalone, request.found.support)) or "Nothing that was given says so."
    if closing:
        return f"{because} So the answer is {_worded(request)}."
    return because if request.found.settled else f"{because} Not known: {_missing(request)}"


def _reasoning(request: Request) -> str:
    """The next sentence of a text, a judgement of each passage, or why the answer is what it is."""
    if request.outputs.keys() == {"reasoning"}:
        return _assessment(request)
    if "finished" in request.outputs and (unwritten := _unwritten(request)):
        return unwritten[0]
    return _explanation(request, closing=request.found.settled or "finished" not in request.outputs)


def _correct(request: Request) -> bool:
    """Whether a prediction has the same date as the reference, or all its words."""
    said, meant = str(request.inputs["prediction"]), str(request.inputs["reference"])
    same = any(a == b or (not b[2] and a[0] == b[0]) for _, _, a in dates(said) for _, _, b in dates(meant))
    words = set(name_words(meant))
    return same or bool(words and words <= set(name_words(said))) or fold(said.strip(" .")) == fold(meant.strip(" ."))


def _statements(request: Request) -> list[dict[str, Any]]:
    """What helps, or what the answer rests on, each with the passages that say it; the same once."""
    said: dict[str, dict[int, None]] = {}
    for sentence in request.found.support if "answer" in request.outputs else request.useful(request.passages):
        said.setdefault(standalone(sentence), {})[sentence.source] = None
    return [{"statement": text, "sources": list(sources)} for text, sources in said.items()]


def _excerpts(request: Request) -> list[str]:
    return [s.text for s in request.useful(read_passage("", str(request.inputs["passage"])), 3)]


def _note(request: Request) -> str:
    """The best note so far (if any) with the useful sentences of the passages, or beside an answer one line each."""
    if "answer" in request.outputs:
        return f"{_assessment(request)}\n{_explanation(request)}"
    lines = [line for line in str(request.inputs.get("best_note", "")).splitlines() if line.strip()]
    old = read_statement("\n".join(lines))
    added = [standalone(sentence) for sentence in request.useful([*request.passages, *old])]
    return "\n".join(distinct((*lines, *added)))


def _better(request: Request) -> bool:
    """Whether the new note says something that the best does not."""
    best, new = (
        {normal(s.text) for s in read_statement(str(request.inputs[name]))} for name in ("best_note", "new_note")
    )
    return not new <= best


def _queries(request: Request) -> list[str]:
    """One query for each open question, or names to go on from."""
    most = int(request.inputs.get("max_queries") or 3)
    return request.queries(min(most, len(request.found.open) or most))


def _questions(request: Request) -> list[str]:
    """Two questions on what a note lacks, or the simple questions of a question; `#1` where the prompt has it so."""
    if "note" in request.inputs:
        return request.queries(2)
    steps = list(plan(request.question).steps)
    alone = [step for step in steps if "#" not in step]
    if request.prompt.says("questions", "in order"):  # the steps alone, for a question that follows them
        return alone if len(steps) > 1 else []
    whole = len(alone) == len(steps) or request.prompt.says("questions", "#1")
    return steps[:4] if whole and len(steps) > 1 else [request.question]


def _tool(request: Request) -> tuple[str, dict[str, str]]:
    """The tool to call and its arguments: a search, until all is settled or after six searches."""
    tool = re.search(r"^ *\(1\) (\w+),.*?It takes arguments \{'(\w+)'", request.prompt.system, re.M | re.S)
    if request.found.settled or tool is None or str(request.inputs["trajectory"]).count("Search: ") >= 6:
        return "finish", {}
    return tool[1], {tool[2]: request.queries(1)[0]}


def _assessed(request: Request) -> dict[int, str]:
    """Each passage's first useful sentence by the passage's id; empty where it has none."""
    said = dict.fromkeys(request.ids, "")
    for sentence in reversed(request.useful(request.passages)):
        said[sentence.source] = sentence.text
    return said


def _assessment(request: Request) -> str:
    return "\n".join(f"[{ident}] {said or 'beside the point'}" for ident, said in _assessed(request).items())


def _relevant(request: Request) -> bool:
    """Whether the passage mentions a name in the question; if that has none, whether a sentence helps."""
    sentences, names = read_statement(str(request.inputs["passage"])), analyse(request.question).names
    words = tuple(word for s in sentences for word in (*name_words(s.title), *s.words))
    return any(mentions(words, name) for name in names) or (not names and bool(request.useful(sentences)))


def _relevant_ids(request: Request) -> list[int]:
    """The ids of the passages with useful sentences, those that the answer rests on first."""
    order = [sentence.source for sentence in request.found.support]
    chosen = [ident for ident, useful in _assessed(request).items() if useful]
    return sorted(chosen, key=[*order, *chosen].index)


_FIELDS: dict[str, tuple[Any, ...]] = {
    "answer": (_answer, "question"),
    "answerable": (lambda request: request.found.settled, "question"),
    "better": (_better, "question best_note new_note"),
    "confidence": (_confidence, "question"),
    "correct": (_correct, "prediction reference"),
    "explanation": (_explanation, "question"),
    "finished": (_finished, "question"),
    "knows": (lambda request: False, "question", "query", "queries"),
    "missing": (_missing, "question"),
    "needed": (lambda request: not request.found.settled, "question"),
    "next_thought": (_explanation, "question trajectory"),
    "next_tool_args": (lambda request: _tool(request)[1], "question trajectory"),
    "next_tool_name": (lambda request: _tool(request)[0], "question trajectory"),
    "note": (_note, "question passages"),
    "passage": (lambda request: "" if "knows" in request.outputs else request.question, "question", "query", "queries"),
    "queries": (_queries, "question"),
    "query": (
        lambda request: "" if "needed" in request.outputs and request.found.settled else request.queries(1)[0],
        "question",
    ),
    "questions": (_questions, "question"),
    "reasoning": (_reasoning, "question"),
    "relevant": (_relevant, "question passage"),
    "relevant_ids": (_relevant_ids, "question passages"),
    "snippet": (lambda request: (_excerpts(request) or [""])[0], "question passage"),
    "statements": (_statements, "question passages"),
    "summary": (lambda request: " ".join(_excerpts(request)), "question passage"),
}
"""The function of each field, and sets of inputs, each of which suffices for it."""
