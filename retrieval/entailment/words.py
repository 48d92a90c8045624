"""What a text says by its words: content words in order, names, numbers, negation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from knowgap.retrieval.lexical import FUNCTION_WORDS, Stemmed, numbers

_NEGATION = re.compile(r"\b(?:not|no|never|none|neither|nor|without|cannot)\b|n['’]t\b", re.IGNORECASE)
_WORD = re.compile(r"\d[\d,.]*\d|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W_]+")
_JOINS = r"(?:of|de|da|di|du|del|della|des|la|le|van|von|der|den|bin|ibn|al|el|y|the)"
_CAPITAL = r"[^\W\d_a-z][\w’'-]*\.?"
_NAME = re.compile(rf"{_CAPITAL}(?:(?:\s+{_JOINS}){{0,2}}\s+(?:{_CAPITAL}|\d+(?=\s|$)))*|{_CAPITAL}")

stemmed = Stemmed()


@dataclass(frozen=True, slots=True)
class Word:
    """A content word.

    Attributes:
        stem: lower-cased, without its ending.
        start: its first character in the text.
        end: the character after its last.
        kind: `name`, `number` or `word`.
    """

    stem: str
    start: int
    end: int
    kind: str


def negated(text: str) -> bool:
    """Whether a text has a word of negation."""
    return bool(_NEGATION.search(text))


def name_runs(text: str) -> list[tuple[str, int]]:
    """The names of a text, each a run of words with capitals, and where it starts.

    Function words at the start of a run do not belong to it. A single capital at the start of a sentence is no name.
    """
    found = []
    for match in _NAME.finditer(text):
        name, start = match.group().rstrip(".,'’"), match.start()
        while (first := re.match(r"[\w’'-]+\.?\s*", name)) and _bare(first.group()) in FUNCTION_WORDS:
            name, start = name[first.end() :], start + first.end()
        alone = len(name.split()) == 1
        opens = re.search(r"(?:^|[.!?:]\s+|\n)[\"“(']*$", text[:start]) is not None
        if name and not (alone and opens and name[1:].islower() and start == match.start()):
            found.append((name, start))
    return found


def _bare(word: str) -> str:
    return word.strip().rstrip(".").lower()


@lru_cache(maxsize=16_384)
def read_words(text: str) -> tuple[Word, ...]:
    """The content words of a text, in order."""
    inside = [(start, start + len(name)) for name, start in name_runs(text)]
    found = []
    for match in _WORD.finditer(text):
        word = match.group().lower()
        if word in FUNCTION_WORDS or word == "s":
            continue
        is_name = any(a <= match.start() < b for a, b in inside)
        figures = numbers(word)
        kind = "number" if figures else "name" if is_name else "word"
        stem = min(figures) if len(figures) == 1 and word[-1].isdigit() else stemmed.word(word)
        found.append(Word(stem, match.start(), match.end(), kind))
    return tuple(found)
