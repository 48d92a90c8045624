"""Sentences, words, names, dates and numbers of English text, in linear time; any Unicode text is accepted."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache

from knowgap.retrieval.words import FUNCTION_WORDS, english_stem

_OPENING = FUNCTION_WORDS - {"the"}  # words that do not begin a name, although they begin a sentence
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MONTH = "(?:" + "|".join(rf"{month}|{month[:3]}\b\.?" for month in _MONTHS) + ")"
_DATE = re.compile(
    rf"(?:\b|(?<=\d{{4}}))(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m1>{_MONTH}),? (?P<y1>\d{{3,4}})"
    rf"|(?P<m2>{_MONTH}) (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y2>\d{{3,4}})"
    rf"|(?P<m3>{_MONTH}),? (?P<y3>\d{{4}})|(?P<y4>1\d{{3}}|20\d{{2}})(?![\d,.]\d))(?:\b|(?=[A-Z]))"
)
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBER = re.compile(rf"\b(?:(\d+(?:,\d{{3}})*(?:\.\d+)?)|({'|'.join(_DIGITS)})\b)", re.I)
_SMALL = r"(?:(?:of|the|de|la|le|du|des|del|della|di|da|dos|van|von|der|den|al|el|&) ){1,2}"
_WORD = r"(?:[\w&]|['’](?![sS]\b)|\.(?=\w))"
_LINK = rf"(?:-| ?[–'] ?|(?<=\b\w)\. |(?<=\b\w\w)\. | {_SMALL}| )"
_NAME = re.compile(rf"[^\W\da-z_]{_WORD}*(?:{_LINK}(?=[^\W_a-z]){_WORD}+)*")
_TOKEN = re.compile(r"['’][sS]\b|\d+(?:,\d{3})*(?:\.\d+)?%?|[^\W_]+(?:[.'’/&_](?![sS]\b)[^\W_]+)*|\S")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, the title of its passage (may be empty), the number of its passage, and its place there.

    `stems` has one stem for each word, empty for stop words and punctuation marks.
    """

    text: str
    title: str = ""
    source: int = 0
    order: int = 0
    words: tuple[str, ...] = field(default=(), compare=False)
    stems: tuple[str, ...] = field(default=(), compare=False)
    names: tuple[str, ...] = field(default=(), compare=False)

    @property
    def content(self) -> frozenset[str]:
        """The stems of its content words."""
        return frozenset(self.stems) - {""}

    @property
    def titled(self) -> frozenset[str]:
        """The stems of its content words and of those of its title."""
        return self.content | frozenset(stems(self.title))


@lru_cache(maxsize=100_000)
def fold(text: str) -> str:
    """Lower case without accents."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in folded if not unicodedata.combining(c))


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    """The stem of a content word; empty for stop words and punctuation marks."""
    word = fold(word)
    return "" if not word[:1].isalnum() or word in FUNCTION_WORDS else english_stem(word)


def stems(text: str) -> list[str]:
    """The stems of the content words of a text, in order, with repetitions."""
    return [stem for word in _TOKEN.findall(text) if (stem := _stem(word))]


def normal(text: str) -> str:
    """A text's content words, so that two texts with the same ones are equal."""
    return " ".join(stems(text)) or fold(text)


@lru_cache(maxsize=20_000)
def name_words(name: str) -> tuple[str, ...]:
    """The folded words of a name, without articles, marks and a bracketed addition."""
    plain = re.sub(r"\s*\([^()]*\)\s*", " ", name).strip() or name
    folded = (fold(word) for word in _TOKEN.findall(plain))
    return tuple(word for word in folded if word[:1].isalnum() and word not in ("the", "a", "an"))


def mentions(words: tuple[str, ...], name: str) -> bool:
    """Whether words contain those of a name one after another, or its first and its last word near each other."""
    key = name_words(name)
    places = [i for i, word in enumerate(words) if key and word == key[0]]
    return any(words[i : i + len(key)] == key or (len(key) > 1 and key[-1] in words[i + 1 : i + 4]) for i in places)


def dates(text: str) -> list[tuple[int, int, tuple[float, ...]]]:
    """Find dates and years in a text: start, end, (year, month, day)."""
    found = []
    for match in _DATE.finditer(text):
        parts = {name[0]: value for name, value in match.groupdict().items() if value}
        month = next((n for n, name in enumerate(_MONTHS, 1) if name[:3] == parts.get("m", "")[:3]), 0)
        found.append((match.start(), match.end(), (float(parts["y"]), float(month), float(parts.get("d", 0)))))
    return found


def value_of(text: str) -> tuple[float, ...]:
    """The first date, (year, month, day) with 0 for an unknown part, or number, (number,), in a text; empty if none."""
    found, number = dates(text), _NUMBER.search(text)
    if number and (not found or number.start() < found[0][0]):
        return (float(number[1].replace(",", "")) if number[1] else float(_DIGITS.index(number[2].lower())),)
    return found[0][2] if found else ()


@lru_cache(maxsize=20_000)
def analyse(text: str, title: str = "", source: int = 0, order: int = 0) -> Sentence:
    """Read a sentence: its words, their stems, and the names in it."""
    words = tuple(fold(token) or token for token in _TOKEN.findall(text))
    names: list[str] = []
    for match in _NAME.finditer(_DATE.sub(lambda date: "." * len(date[0]), text)):
        start, end = match.span()
        while (word := re.match(r"(\w+) ", text[start:end])) and fold(word[1]) in _OPENING:
            start += word.end()
        name = text[start:end]
        if fold(name) not in FUNCTION_WORDS and not _NUMBER.fullmatch(name):
            names.append(name)
    return Sentence(text, title, source, order, words, tuple(map(_stem, words)), tuple(names))
