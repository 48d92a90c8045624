"""Sentences, words, names, dates and numbers of English text, in linear time; any Unicode text is accepted."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from knowgap.retrieval.words import FUNCTION_WORDS, WORD, english_stem

_OPENING = FUNCTION_WORDS - {"the"}  # words that do not begin a name, although they begin a sentence
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_YEAR = re.compile(r"\b\d{3,4}\b(?![,.]\d)")
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_NAME = re.compile(
    r"[^\W\da-z_][\w&]*(?:(?:-|\. |[.'’](?![sS]\b)| (?:(?:of|the|de|la|van|von|&) ){0,2})(?=[^\W_a-z])[\w&]+)*"
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, the title of its passage (may be empty), and the number of its passage."""

    text: str
    title: str = ""
    source: int = 0

    @property
    def passage(self) -> tuple[int, str]:
        """The number and the title of its passage."""
        return self.source, self.title

    @property
    def titled(self) -> frozenset[str]:
        """The stems of its content words and of those of its title."""
        return frozenset(stems(self.text) + stems(self.title))


@lru_cache(maxsize=100_000)
def fold(text: str) -> str:
    """Lower case without accents."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in folded if not unicodedata.combining(c))


@lru_cache(maxsize=20_000)
def _words(text: str) -> tuple[str, ...]:
    return tuple(WORD.findall(fold(text)))


@lru_cache(maxsize=20_000)
def stems(text: str) -> tuple[str, ...]:
    """The stems of the content words of a text, in order, with repetitions."""
    return tuple(english_stem(word) for word in _words(text) if word not in FUNCTION_WORDS)


@lru_cache(maxsize=20_000)
def name_words(name: str) -> tuple[str, ...]:
    """The folded words of a name, without articles, marks and a bracketed addition."""
    plain = re.sub(r"\s*\([^()]*\)\s*", " ", name).strip() or name
    return tuple(word for word in _words(plain) if word not in ("the", "a", "an"))


def mentions(text: str, name: str) -> bool:
    """Whether a text has the words of a name one after another, or its first and its last word near each other."""
    words, key = _words(text), name_words(name)
    places = [i for i, word in enumerate(words) if key and word == key[0]]
    return any(words[i : i + len(key)] == key or (len(key) > 1 and key[-1] in words[i + 1 : i + 4]) for i in places)


def value_of(text: str) -> tuple[float, ...]:
    """The first date, (year, month, day) with 0 for an unknown part, or number, (number,), in a text; empty if none."""
    year, number = _YEAR.search(text), _NUMBER.search(text)
    month = next((n for n, name in enumerate(_MONTHS, start=1) if re.search(rf"\b{name}", text, re.I)), 0)
    if year is None or number is None or (not month and number.start() < year.start()):
        return (float(number[0].replace(",", "")),) if number else ()
    day = re.search(r"\b\d{1,2}(?!\d)", text) if month else None
    return (float(year[0]), float(month), float(day[0]) if day else 0.0)


@lru_cache(maxsize=20_000)
def names_in(text: str) -> tuple[str, ...]:
    """The names in a text, in order, without function words before them."""
    names: list[str] = []
    for match in _NAME.finditer(text):
        start, end = match.span()
        while (word := re.match(r"(\w+) ", text[start:end])) and fold(word[1]) in _OPENING:
            start += word.end()
        if fold(text[start:end]) not in FUNCTION_WORDS:
            names.append(text[start:end])
    return tuple(names)


_PRONOUN = re.compile(r"(?:(He|She|It|They)|(His|Her|Its|Their))\b(?!['’])")


def standalone(sentence: Sentence) -> str:
    """Put the title before a sentence, or in the place of its first pronoun, unless it has all words of the title.

    A title in lower case is no name, but that of a file.
    """
    title = re.sub(r"\s*\([^()]*\)$", "", sentence.title)
    if not title or title.islower() or mentions(sentence.text, title):
        return sentence.text
    if lead := _PRONOUN.match(sentence.text):
        owner = title + ("'" if title.endswith("s") else "'s")
        return (title if lead[1] else owner) + sentence.text[lead.end() :]
    return f"{title}: {sentence.text}"
