"""Read what a prompt gives: its question, its passages and statements, and what was asked before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from knowgap.lms.embedded.prompts import Prompt, listed
from knowgap.lms.embedded.questions import plan
from knowgap.lms.embedded.reading import coverages
from knowgap.lms.embedded.solving import Answer, answer, bridge, uncovered
from knowgap.lms.embedded.text import Sentence, analyse, fold, name_words, normal
from knowgap.retrieval.sentences import split_sentences

_PASSAGES = ("passages", "context", "contexts", "documents")
_STATEMENTS = ("known", "facts")
_TEXTS = ("note", "best_note", "text", "passage", "reasoning")
_NOTHING = ("unknown", "unanswerable")


class Request:
    """A prompt with what the reader finds in it.

    Attributes:
        prompt: the prompt; inputs and outputs are its own.
        question: what is asked.
        ids: the numbers of the passages, whose sentences `passages` has.
        sub_answers: the answers to sub-questions, by the sub-question.
    """

    def __init__(self, prompt: Prompt) -> None:
        self.prompt, self.inputs, self.outputs = prompt, prompt.inputs, prompt.outputs
        self.question = str(self.inputs.get("question") or self.inputs.get("query") or "")
        given = [passage for name in _PASSAGES for passage in _numbered(self.inputs.get(name, []))]
        self.ids = [ident for ident, _, _ in given]
        self.passages = [s for ident, title, text in given for s in read_passage(title, text, ident)]
        pairs = self.inputs.get("sub_answers")
        pairs = [pair for pair in pairs if isinstance(pair, Mapping)] if isinstance(pairs, list) else []
        said = {str(pair.get("question", "")): str(pair.get("answer", "")).strip() for pair in pairs}
        self.sub_answers = {q: a for q, a in said.items() if a and fold(a).strip(" .") not in _NOTHING}

    @cached_property
    def sentences(self) -> list[Sentence]:
        """The sentences of everything that is given."""
        texts = [text for name in _STATEMENTS for text in strings(self.inputs.get(name, []))]
        texts += [str(self.inputs.get(name) or "") for name in _TEXTS]
        texts += re.findall(r"^\[\d+\] (.+)$", str(self.inputs.get("trajectory", "")), re.M)
        numbered = enumerate(texts, start=1_000_000)  # behind all passages
        stated = [s for number, text in numbered for s in read_statement(text, number)]
        replies = [analyse(reply, asked.rstrip("?")) for asked, reply in self.sub_answers.items()]
        return [*self.passages, *stated, *replies]

    @cached_property
    def found(self) -> Answer:
        """The answer from everything that is given."""
        return answer(self.question, self.sentences)

    def useful(self, sentences: Sequence[Sentence], most: int = 8) -> list[Sentence]:
        """Choose sentences that help, in their order: those behind an answer, and those that cover much of a query."""
        worth: dict[Sentence, float] = {}
        for text in (self.question, *strings(self.inputs.get("queries", []))):
            for step in (step for step in (text, *plan(text).steps) if "#" not in step):
                for sentence, score in zip(sentences, coverages(step, sentences), strict=True):
                    worth[sentence] = max(worth.get(sentence, 0.0), score)
            worth.update(dict.fromkeys(answer(text, sentences).support, 2.0))
        floor = max(0.2, 0.6 * max(coverages(self.question, sentences), default=0.0))
        best = sorted((s for s in worth if worth[s] > floor), key=lambda s: (-worth[s], s.source, s.order))[:most]
        return sorted(best, key=lambda s: (s.source, s.order))

    def queries(self, most: int) -> list[str]:
        """Propose one to `most` queries for what is missing, none of which was asked before."""
        asked = [self.question, *self.sub_answers]
        asked += [text for name in ("asked", "searched") for text in strings(self.inputs.get(name, []))]
        asked += re.findall(r"^Search: (.+)$", str(self.inputs.get("trajectory", "")), re.M)
        fresh = distinct(bridge(self.question, self.sentences, self.found), asked)
        rest = uncovered(self.question, self.sentences) or self.question.rstrip(" ?")
        return fresh[:most] or [f"{rest}: further facts"]


def strings(value: Any) -> list[str]:
    """The items of a list of texts or of searched queries, given as a list or as DSPy writes one."""
    if isinstance(value, list):
        return [str(item.get("query", "")) if isinstance(item, Mapping) else str(item) for item in value]
    return listed(value) if isinstance(value, str) else []


def distinct(texts: Iterable[str], before: Iterable[str] = ()) -> list[str]:
    """The first of the texts with the same content words, without those that say what stands in `before`."""
    known, said = set(map(normal, before)), dict[str, str]()
    for text in texts:
        said.setdefault(normal(text), text)
    return [text for key, text in said.items() if key not in known]


def _numbered(value: Any) -> list[tuple[int, str, str]]:
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
        if found and len(title) <= 80 and not title[:1].islower() and not re.search(r"[.!?] ", title):
            return title, text
    return "", line


def read_passage(title: str, text: str, source: int = 0) -> list[Sentence]:
    """Split a passage into sentences, each about its title."""
    return [analyse(part, title, source, order) for order, part in enumerate(split_sentences(text))]


def read_statement(text: str, source: int = 0) -> list[Sentence]:
    """Split a note or statement; a line is about the title before its colon, or about the name that opens it."""
    found = []
    for line in text.splitlines():
        title, rest = _titled(line.strip().lstrip("-*• "))
        opening = analyse(split_sentences(rest)[0]).names if not title and rest else ()
        title = title or next((name for name in opening if rest.find(name) <= 1), "")
        found += read_passage(title, rest, source)
        source += 1000  # the lines of a text are as apart as passages
    return found


_PRONOUN = re.compile(r"(?:(He|She|It|They)|(His|Her|Its|Their))\b(?!['’])")


def standalone(sentence: Sentence) -> str:
    """Put the title before a sentence that does not have all its words."""
    title = re.sub(r"\s*\([^()]*\)$", "", sentence.title)
    if not title or set(name_words(title)) <= set(sentence.words):
        return sentence.text
    if lead := _PRONOUN.match(sentence.text):
        owner = title + ("'" if title.endswith("s") else "'s")
        return (title if lead[1] else owner) + sentence.text[lead.end() :]
    return f"{title}: {sentence.text}"
