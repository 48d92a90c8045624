"""Sentences, words, names, dates and numbers of English text, in linear time; any Unicode text is accepted."""

from __future__ import annotations

import re
import threading
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import Stemmer

__all__ = [
    "STOP_WORDS",
    "Sentence",
    "Span",
    "analyse",
    "dates",
    "fold",
    "mentions",
    "name_words",
    "names_in",
    "normal",
    "split",
]
__all__ += ["stems", "value_of", "words_of"]


def words_of(text: str) -> frozenset[str]:
    """Split a list that is written as text."""
    return frozenset(text.split())


STOP_WORDS = words_of(
    """
    a an the and or but nor of in on at by for from to into onto with without as than then that this these those it
    its he she they them his her hers their theirs him i we you your our my who whom whose which what when where why
    how is was are were be been being am do does did done has have had having will would can could shall should may
    might must not no so if also both either neither same there here such some any all each every other another more
    most less much many very only just about after before during between through over under up down out off again
    while because until since s one ones
    """
)
_OPENING = STOP_WORDS - {"the"}  # words that do not begin a name, although they begin a sentence
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
_NUMBER = re.compile(
    rf"\b(?:(\d+(?:,\d{{3}})*(?:\.\d+)?)|({'|'.join(_DIGITS)})\b)"
    r"(?: ?(?:hundred|thousand|million|billion|trillion|percent|%|km|kilometres|miles|feet|metres))*",
    re.I,
)
_SMALL = r"(?:(?:of|the|de|la|le|du|des|del|della|di|da|dos|van|von|der|den|al|el|&) ){1,2}"
_WORD = r"(?:[\w&]|['’](?![sS]\b)|\.(?=\w))"
_LINK = rf"(?:-| ?[–'] ?|(?<=\b\w)\. |(?<=\b\w\w)\. | {_SMALL}| )"
_NAME = re.compile(rf"[^\W\da-z_]{_WORD}*(?:{_LINK}(?=[^\W_a-z]){_WORD}+)*")
_QUOTED = re.compile(r"[\"“]([^\"“”]{2,80})[\"”]")
_TOKEN = re.compile(r"['’][sS]\b|\d+(?:,\d{3})*(?:\.\d+)?%?|[^\W_]+(?:[.'’/&](?![sS]\b)[^\W_]+)*|\S")
_BOUNDARY = re.compile(r"(?<=[.!?؟。！？])[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[^\W_a-z])|\n+|(?<=[。！？])")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(.])(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Sr|Jr|Prof|Gen|Col|Lt|Capt|Rev|Hon|Mt|No|vs|Inc|Ltd|Co|c|ca|b|d)\.$"
)
_AGENT = re.compile(r"(?<=\w{4})(?:[eo]r|ion)$")  # director and direction, as directed


class Span(NamedTuple):
    """A `name`, `date` or `number` (`kind`): the tokens from `first` up to `last` (exclusive).

    `value` is (year, month, day), with 0 for an unknown part, or (number,), or empty.
    """

    text: str
    first: int
    last: int
    kind: str
    value: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, the title of its passage (may be empty), the number of its passage, and its place there.

    `stems` has one for each word, empty for stop words and marks.
    """

    text: str
    title: str = ""
    source: int = 0
    order: int = 0
    words: tuple[str, ...] = field(default=(), compare=False)
    stems: tuple[str, ...] = field(default=(), compare=False)
    spans: tuple[Span, ...] = field(default=(), compare=False)

    @property
    def content(self) -> frozenset[str]:
        """The stems of its content words."""
        return frozenset(self.stems) - {""}


_STEMMERS = threading.local()  # PyStemmer's objects must not be shared


@lru_cache(maxsize=100_000)
def fold(text: str) -> str:
    """Lower case without accents."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in folded if not unicodedata.combining(c))


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    """The stem of a content word; empty for stop words and marks."""
    word = fold(word)
    if not word[:1].isalnum() or word in STOP_WORDS:
        return ""
    if not hasattr(_STEMMERS, "english"):
        _STEMMERS.english = Stemmer.Stemmer("english")
    return _AGENT.sub("", _STEMMERS.english.stemWord(word))


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


@lru_cache(maxsize=4_000)
def split(text: str) -> tuple[str, ...]:
    """Split a text into sentences; initials and short abbreviations do not end one."""
    parts, begin = [], 0
    for match in _BOUNDARY.finditer(text):
        if "\n" in match.group() or not _ABBREVIATION.search(text[max(begin, match.start() - 8) : match.start()]):
            parts.append(text[begin : match.end()].strip())
            begin = match.end()
    return tuple(part for part in (*parts, text[begin:].strip()) if part)


def dates(text: str) -> list[tuple[int, int, tuple[float, ...]]]:
    """Find dates and years in a text: start, end, (year, month, day)."""
    found = []
    for match in _DATE.finditer(text):
        parts = {name[0]: value for name, value in match.groupdict().items() if value}
        month = next((n for n, name in enumerate(_MONTHS, 1) if name[:3] == parts.get("m", "")[:3]), 0)
        found.append((match.start(), match.end(), (float(parts["y"]), float(month), float(parts.get("d", 0)))))
    return found


def value_of(text: str) -> tuple[float, ...]:
    """The first date or number in a text, as `Span.value` has it; empty if there is none."""
    return next((span.value for span in analyse(text).spans if span.value), ())


def names_in(question: str) -> list[str]:
    """The names in a question; a single capital letter at its start makes none."""
    spans = analyse(question).spans
    return [span.text for span in spans if span.kind == "name" and (span.first or span.last > 1)]


@lru_cache(maxsize=20_000)
def analyse(text: str, title: str = "", source: int = 0, order: int = 0) -> Sentence:
    """Read a sentence: its words, their stems, and the names, dates and numbers."""
    return Sentence(text, title, source, order, *_analysed(text))


@lru_cache(maxsize=20_000)
def _analysed(text: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Span, ...]]:
    tokens = list(_TOKEN.finditer(text))
    words = tuple(fold(token.group()) or token.group() for token in tokens)
    stemmed = tuple(map(_stem, words))
    firsts = {token.start(): i for i, token in enumerate(tokens)}
    lasts = {token.end(): i + 1 for i, token in enumerate(tokens)}
    found: dict[tuple[int, int], Span] = {}

    def add(start: int, end: int, kind: str, value: tuple[float, ...] = ()) -> None:
        first, last = firsts.get(start), lasts.get(end)
        if first is not None and last is not None:
            found.setdefault((first, last), Span(text[start:end], first, last, kind, value))

    for start, end, value in dates(text):
        add(start, end, "date", value)
    masked = _DATE.sub(lambda match: "." * len(match[0]), text)
    for match in _NUMBER.finditer(masked):
        number = float(match[1].replace(",", "")) if match[1] else float(_DIGITS.index(match[2].lower()))
        add(*match.span(), "number", (number,))
    for match in _NAME.finditer(masked):
        begin = match.start()
        while (word := re.match(r"(\w+) ", text[begin : match.end()])) and fold(word[1]) in _OPENING:
            begin += word.end()
        if fold(text[begin : match.end()]) not in STOP_WORDS:
            add(begin, match.end(), "name")
    for match in _QUOTED.finditer(text):
        add(*match.span(1), "name")
    return words, stemmed, tuple(sorted(found.values(), key=lambda span: (span.first, span.last)))
