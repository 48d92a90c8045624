"""Read the inputs of an act: its question, its sentences, answers already given, and the style of the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from knowgap.lms.embedded.answers import Answer
from knowgap.lms.embedded.english.language import Sentence, fold, name_key, stems
from knowgap.lms.embedded.english.questions import Question, parse
from knowgap.lms.embedded.english.sentences import read_passage, read_statement, standalone
from knowgap.lms.embedded.prompts import listed

__all__ = [
    "Inputs",
    "asked_before",
    "given_answers",
    "passages",
    "plain",
    "question_of",
    "sentences_of",
    "strings",
    "styled",
]

Inputs = Mapping[str, Any]

_PASSAGES = ("passages", "context", "contexts", "documents")
_STATEMENTS = ("known", "facts")
_TEXTS = ("note", "best_note", "text", "passage", "reasoning")
_NOTHING = ("unknown", "unanswerable")


def question_of(inputs: Inputs) -> Question:
    """Parse the question or query."""
    return parse(str(inputs.get("question") or inputs.get("query") or ""))


def plain(text: str) -> str:
    """Normalise a text, so that two with the same content words are equal."""
    return " ".join(stems(text)) or fold(text)


def strings(value: Any) -> list[str]:
    """Return the items of a list of texts or of searched queries, given as a list or as DSPy writes one."""
    if isinstance(value, list):
        return [str(item.get("query", "")) if isinstance(item, Mapping) else str(item) for item in value]
    return listed(value) if isinstance(value, str) else []


def passages(value: Any) -> list[tuple[int, str, str]]:
    """Return (id, title, text) of passages, given as mappings, as `Title | text` or as plain texts."""
    items = value if isinstance(value, list) else listed(value) if isinstance(value, str) else [value]
    found = []
    for number, item in enumerate(items, start=1):
        if isinstance(item, dict):
            text = str(item.get("text", item.get("long_text", item.get("content", ""))))
            ident = item.get("id")
            found.append((ident if isinstance(ident, int) else number, str(item.get("title", "")), text))
        else:
            found.append((number, *_titled(str(item))))
    return found


def _titled(line: str) -> tuple[str, str]:
    for mark in (" | ", ": "):
        title, found, text = line.partition(mark)
        if found and len(title) <= 80 and not re.search(r"[.!?] ", title):
            return title, text
    return "", line


def sentences_of(inputs: Inputs) -> list[Sentence]:
    """Split all texts in the inputs into sentences."""
    found: list[Sentence] = []
    for name in _PASSAGES:
        for ident, title, text in passages(inputs.get(name, [])):
            found.extend(read_passage(title, text, ident))
    for name in _STATEMENTS:
        for number, text in enumerate(strings(inputs.get(name, [])), start=1):
            found.extend(read_statement(text, number))
    for name in _TEXTS:
        found.extend(read_statement(str(inputs.get(name) or ""), len(found)))
    for line in re.findall(r"^\[\d+\] (.+)$", str(inputs.get("trajectory", "")), re.M):
        found.extend(read_passage(*_titled(line), len(found)))
    return found


def _sub_answers(inputs: Inputs) -> list[tuple[str, str]]:
    items = inputs.get("sub_answers")
    items = [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    return [(str(item.get("question", "")), str(item.get("answer", "")).strip()) for item in items]


def given_answers(inputs: Inputs) -> tuple[dict[Any, str], list[Sentence]]:
    """Return the answers to sub-questions by the chains that these ask (see `solving.Given`), and as sentences."""
    given: dict[Any, str] = {}
    sentences: list[Sentence] = []
    for text, reply in _sub_answers(inputs):
        asked = parse(text)
        if reply and fold(reply).strip(" .") not in _NOTHING:
            for chain in asked.chains if asked.form == "value" else ():
                given[name_key(chain.entity), tuple(relation.name for relation in chain.relations)] = reply
            sentences.extend(read_statement(f"{text.rstrip('?')}: {reply}", len(sentences)))
    return given, sentences


def asked_before(inputs: Inputs) -> set[str]:
    """Return what was asked before, including the question, normalised by `plain`."""
    asked = [str(inputs.get("question", "")), *(text for text, _ in _sub_answers(inputs))]
    asked += [text for name in ("asked", "searched") for text in strings(inputs.get(name, []))]
    asked += re.findall(r"^Search: (.+)$", str(inputs.get("trajectory", "")), re.M)
    return {plain(text) for text in asked}


def styled(found: Answer, inputs: Inputs) -> str:
    """Word an answer in the style asked for: a letter, yes or no, sentences, or the short answer itself."""
    style = fold(str(inputs.get("style", "")))
    if "letter" in style:
        options = re.findall(
            r"(?:^|[\s(])([A-Z])[).:] *(.+?)(?=\s+\(?[A-Z][).:] |$)", str(inputs.get("question", "")), re.S
        )
        words = set(stems(found.text))
        return max(options, key=lambda option: len(words & set(stems(option[1]))), default=("A", ""))[0]
    if style.startswith("yes or no") and found.text not in ("yes", "no"):
        return "yes" if found.certainty >= 0.5 else "no"
    if "sentence" in style and "no sentence" not in style and found.support:
        return " ".join(dict.fromkeys(standalone(sentence) for sentence in found.support))
    return found.text
