"""The English of the embedded reader: tokens, stems, sentences, names, dates and numbers.

Every function takes time linear in the length of the text and accepts any Unicode text. In languages without capital
letters no names are found; they are read by word overlap alone.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import Stemmer

__all__ = [
    "COPULAS",
    "STOP_WORDS",
    "Sentence",
    "Span",
    "Token",
    "analyse",
    "find_dates",
    "fold",
    "locate",
    "name_key",
    "same_name",
    "sentences_of",
    "stem",
    "stems",
    "words",
]


def words(text: str) -> frozenset[str]:
    """Split a list that is written as text."""
    return frozenset(text.split())


STOP_WORDS = words(
    """
    a an the and or but nor of in on at by for from to into onto with without as than then that this these those it
    its he she they them his her hers their theirs him i we you your our my who whom whose which what when where why
    how is was are were be been being am do does did done has have had having will would can could shall should may
    might must not no so if also both either neither same there here such some any all each every other another more
    most less much many very only just about after before during between through over under up down out off again
    while because until since s one ones name named called known
    """
)
COPULAS = words("is was are were be been became becomes remains named")
_CONNECTORS = words(
    """
    of the de la le les du des del della di da do dos das von van der den ter ten zu zum al el bin ibn y e und et &
    ' ’ 's ’s - – : . for
    """
)
_SENTENCE_STARTERS = STOP_WORDS | words(
    """
    although despite however according later earlier originally formerly currently today born located founded based
    directed released set following upon among like unlike along together now once two three four five six seven
    eight several many within around near
    """
)
# Two words that mean the same as one verb, and its stem.
_IDIOMS = {"passed away": "die", "came out": "releas", "come out": "releas", "set up": "found", "comes from": "origin"}
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MONTH = "(" + "|".join(month + "|" + month[:3] + r"\b\.?" for month in _MONTHS) + ")"
_DATE = re.compile(
    rf"(?:\b|(?<=\d{{4}}))(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH},? (?P<y1>\d{{3,4}})"
    rf"|{_MONTH} (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y2>\d{{3,4}})"
    rf"|{_MONTH},? (?P<y3>\d{{4}})"
    r"|(?P<y4>1\d{3}|20\d{2})(?![\d,.]\d)"
    rf"|(?<=[Ii]n )(?P<y5>\d{{3}})(?= ?[,.)]))(?:\b|(?=\d{{1,2}} [A-Z])|(?=[A-Z][a-z]))"  # a lost dash: 188524 July
)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_NUMBER_WORDS = {
    word: float(value)
    for value, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    )
}
_TOKEN = re.compile(r"['’][sS]\b|\d{1,3}(?:,\d{3})+(?:\.\d+)?|[^\W_]+(?:[.'’/&](?![sS]\b)[^\W_]+)*|\S")
_BOUNDARY = re.compile(r"(?<=[.!?؟。！？])[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[^\W_a-z])|\n+|(?<=[。！？])")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(.])(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Sr|Jr|Prof|Gen|Col|Lt|Capt|Sgt|Rev|Hon|Mt|Ft|No|vs|Inc|Ltd|Co|c|ca|b|d|Op)\.$"
)


class Token(NamedTuple):
    """A word or a mark: its text, its offsets, its folded form and its stem."""

    text: str
    start: int
    end: int
    folded: str
    stem: str


class Span(NamedTuple):
    """A possible answer: the tokens from `first` up to `last` (exclusive).

    `kind` is `name`, `date` or `number`; `value` is (year, month, day), with 0 for an unknown part, or (number,).
    """

    text: str
    first: int
    last: int
    kind: str
    value: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, the `title` of what it is about (may be empty), and the number of its passage (`source`)."""

    text: str
    title: str
    source: int
    order: int
    tokens: tuple[Token, ...] = field(compare=False)
    spans: tuple[Span, ...] = field(compare=False)
    stems: frozenset[str] = field(compare=False)
    places: dict[str, tuple[int, ...]] = field(compare=False)


class _Stemmers(threading.local):
    """One stemmer per thread: PyStemmer's objects must not be shared."""

    def __init__(self) -> None:
        self.english = Stemmer.Stemmer("english")


_STEMMERS = _Stemmers()


@lru_cache(maxsize=100_000)
def fold(text: str) -> str:
    """Lower case without accents."""
    text = text.casefold()
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """The English stem of one word, folded."""
    return _STEMMERS.english.stemWord(fold(word))


def stems(text: str) -> list[str]:
    """The stems of the content words of a text, in order, with repetitions."""
    found = (match.group() for match in _TOKEN.finditer(text))
    return [stem(word) for word in found if word[0].isalnum() and fold(word) not in STOP_WORDS]


@lru_cache(maxsize=20_000)
def name_key(name: str) -> tuple[str, ...]:
    """Normalise a name to its folded words, without articles, marks and a bracketed addition."""
    plain = re.sub(r"\s*\([^()]*\)\s*", " ", name).strip() or name
    found = [fold(match.group()) for match in _TOKEN.finditer(plain)]
    return tuple(w for w in found if w[0].isalnum() and w not in ("the", "a", "an"))


def same_name(one: str, other: str) -> float:
    """How likely two names mean the same: 1 for the same words, 0.7 if one has the other's words in order, else 0."""
    a, b = name_key(one), name_key(other)
    if not (a and b):
        return 0.0
    if a == b:
        bracket = re.compile(r"\(([^()]*)\)")
        x, y = bracket.findall(fold(one)), bracket.findall(fold(other))
        return 1.0 if not (x and y) or x == y else 0.8
    short, long = (a, b) if len(a) <= len(b) else (b, a)
    if len(short) < 2 and (len(long) > 3 or long[-1:] != short):
        return 0.0
    rest = iter(long)
    return 0.7 if all(word in rest for word in short) else 0.0


def locate(sentence: Sentence, name: str) -> tuple[int, int] | None:
    """Find a name in a sentence, as token positions; up to two other words may come between its words."""
    key = name_key(name)
    if not key:
        return None
    for first in sentence.places.get(key[0], ()):
        at = first
        for word in key[1:]:
            near = (p for p in sentence.places.get(word, ()) if at < p <= at + 3)
            at = next(near, -1)
            if at < 0:
                break
        if at >= 0:
            return first, at + 1
    return None


@lru_cache(maxsize=4_000)
def sentences_of(text: str) -> tuple[str, ...]:
    """Split a text into sentences; initials and common abbreviations do not end one."""
    parts: list[str] = []
    begin = 0
    for match in _BOUNDARY.finditer(text):
        piece = text[begin : match.start()]
        if "\n" not in match.group() and _ABBREVIATION.search(piece[-8:]):
            continue
        parts.append(text[begin : match.end()].strip())
        begin = match.end()
    parts.append(text[begin:].strip())
    return tuple(part for part in parts if part)


def find_dates(text: str) -> list[tuple[int, int, tuple[float, ...]]]:
    """Find dates and years in a text: start, end, (year, month, day)."""
    found = []
    for match in _DATE.finditer(text):
        year = next(int(v) for k, v in match.groupdict().items() if k[0] == "y" and v)
        day = next((int(v) for k, v in match.groupdict().items() if k[0] == "d" and v), 0)
        names = [g for g in match.groups() if g and g[0].isalpha()]
        month = next((n for n, m in enumerate(_MONTHS, 1) if names and names[0][:3] == m[:3]), 0)
        found.append((match.start(), match.end(), (year, month, day)))
    return found


def analyse(text: str, title: str = "", source: int = 0, order: int = 0) -> Sentence:
    """Split a sentence into tokens and find the spans that can be answers."""
    return Sentence(text, title, source, order, *_analysed(text))


_Analysis = tuple[tuple[Token, ...], tuple[Span, ...], frozenset[str], dict[str, tuple[int, ...]]]


@lru_cache(maxsize=10_000)
def _analysed(text: str) -> _Analysis:
    """Tokens, spans, stems and places of a sentence, which are the same wherever it stands."""
    found = list(_TOKEN.finditer(text))
    after = [*(fold(m.group()) for m in found[1:]), ""]
    tokens = tuple(
        Token(m.group(), m.start(), m.end(), word, _IDIOMS.get(f"{word} {following}") or stem(m.group()))
        for m, following in zip(found, after, strict=True)
        for word in (fold(m.group()),)
    )
    spans: list[Span] = []
    taken: set[int] = set()
    starts, ends = [token.start for token in tokens], [token.end for token in tokens]
    for start, end, value in find_dates(text):
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        spans.append(Span(text[start:end], first, last, "date", value))
        taken.update(range(first, last))
    spans.extend(_numbers(tokens, taken))
    spans.extend(_names(text, tokens, taken))
    spans.sort(key=lambda span: span.first)
    places: dict[str, list[int]] = {}
    for i, token in enumerate(tokens):
        places.setdefault(token.folded, []).append(i)
    content = frozenset(t.stem for t in tokens if t.text[0].isalnum() and t.folded not in STOP_WORDS)
    frozen = {word: tuple(positions) for word, positions in places.items()}
    return tokens, tuple(spans), content, frozen


def _numbers(tokens: tuple[Token, ...], taken: set[int]) -> list[Span]:
    found = []
    for i, token in enumerate(tokens):
        if i in taken:
            continue
        if _NUMBER.fullmatch(token.text):
            found.append(Span(token.text, i, i + 1, "number", (float(token.text.replace(",", "")),)))
        elif token.folded in _NUMBER_WORDS:
            found.append(Span(token.text, i, i + 1, "number", (_NUMBER_WORDS[token.folded],)))
    return found


def _names(text: str, tokens: tuple[Token, ...], taken: set[int]) -> list[Span]:
    """Runs of capitalised words, joined across small words such as `of the` and `von`."""
    found = []
    i, n = 0, len(tokens)
    while i < n:
        starts = i == 0 or tokens[i - 1].text in '.!?:"“' or (i == 1 and not tokens[0].text[0].isalnum())
        ordinary = (
            starts
            and tokens[i].folded in _SENTENCE_STARTERS
            and not (i + 1 < n and _capital(tokens[i + 1]) and tokens[i].folded == "the")
        )
        if i in taken or not _capital(tokens[i]) or ordinary:
            i += 1
            continue
        last = i + 1
        j = last
        while j < n and j not in taken:
            if _capital(tokens[j]) or (tokens[j].text[0].isdigit() and j == last):
                j = last = j + 1
            elif tokens[j].folded in _CONNECTORS and j - last < 2 and _joins(tokens, j):
                j += 1
            elif tokens[j - 1].text == "-" and tokens[j - 1].end == tokens[j].start and tokens[j].text[0].isalpha():
                j = last = j + 1  # the lower-case half of a hyphenated name
            else:
                break
        found.append(Span(text[tokens[i].start : tokens[last - 1].end], i, last, "name"))
        i = last
    return found


def _capital(token: Token) -> bool:
    return token.text[0].isupper()


def _joins(tokens: tuple[Token, ...], j: int) -> bool:
    """Whether the mark or small word at `j` can stand inside a name."""
    token = tokens[j]
    if token.text == ".":  # only after an initial or a short title: `D. Rao`, `St. John`
        return len(tokens[j - 1].text) <= 4 and tokens[j - 1].end == token.start
    if token.text in ("-", "–"):
        return token.start == tokens[j - 1].end
    return True
