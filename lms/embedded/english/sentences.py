"""Split passages and statements into sentences, and view a sentence from the thing that is asked about."""

from __future__ import annotations

import re
from dataclasses import dataclass

from knowgap.lms.embedded.english.language import (
    COPULAS,
    Sentence,
    Span,
    Token,
    analyse,
    locate,
    name_key,
    same_name,
    sentences_of,
    words,
)

__all__ = ["TITLE_NOUNS", "View", "matches", "read_passage", "read_statement", "standalone", "view"]

TITLE_NOUNS = words(
    "film movie song album band group novel book company village town city river building school university series "
    "show game magazine newspaper museum festival station club team airport bridge story play opera single"
)
_PRONOUNS = words("he she it they his her its their him them")
_NOT_PERSON = re.compile(
    r"\b(?:University|College|School|Company|Corporation|Inc|Ltd|Records|Studios?|Pictures|Films?|Festival|Awards?|Museum"
    r"|Church|City|County|River|Party|League|Club|Street|Institute|Academy|Prize|Series|TV|Productions?|Entertainment)\b"
)


def read_passage(title: str, text: str, source: int = 0) -> tuple[Sentence, ...]:
    """Split a passage into sentences, each about the passage's title."""
    return tuple(analyse(part, title, source, order) for order, part in enumerate(sentences_of(text)))


def read_statement(text: str, source: int = 0) -> tuple[Sentence, ...]:
    """Split a note or statement into sentences, each about the title before its colon or the first name in its line."""
    found: list[Sentence] = []
    for line in text.splitlines():
        title, colon, rest = line.strip().lstrip("-*• ").partition(": ")
        titled = bool(colon) and len(title) <= 80 and not title[:1].islower() and not re.search(r"[.!?] ", title)
        subject = title if titled else ""
        for part in sentences_of(rest if titled else line.strip().lstrip("-*• ")):
            names = [s for s in analyse(part).spans if s.kind == "name" and s.first <= 3]
            subject = title if titled else names[0].text if names else subject
            found.append(analyse(part, subject, source, len(found)))
    return tuple(found)


def matches(sentence: Sentence, name: str) -> float:
    """How much a sentence is about a name: `same_name` of its title, 0.6 if it only mentions the name, else 0."""
    return same_name(sentence.title, name) or (0.6 if locate(sentence, name) else 0.0)


def view(sentence: Sentence, name: str) -> View | None:
    """View a sentence from a name; None where it is not about it."""
    about = same_name(sentence.title, name)
    at = locate(sentence, name)
    if at is None and not about:
        return None
    return View(sentence, at or _subject(sentence), about)


def _subject(sentence: Sentence) -> tuple[int, int]:
    """Find where a sentence refers to its title without the full name; before the first word if nowhere."""
    key = name_key(sentence.title)
    for i, token in enumerate(sentence.tokens[:12]):
        after = sentence.tokens[i + 1].folded if i + 1 < len(sentence.tokens) else ""
        if token.folded in _PRONOUNS or (token.folded == "the" and after in TITLE_NOUNS):
            return i, i + 1
        if token.folded in (*key[-1:], *key[:1]) and token.text[0].isupper():
            return i, i + 1
    return -1, 0


@dataclass(frozen=True, slots=True)
class View:
    """A sentence viewed from a thing: the thing's token positions (`at`) and how much the sentence is about it."""

    sentence: Sentence
    at: tuple[int, int]
    about: float

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The sentence's tokens."""
        return self.sentence.tokens

    def words(self, start: int, end: int) -> list[str]:
        """The folded words between two positions; positions below 0 count as 0."""
        return [token.folded for token in self.tokens[max(start, 0) : max(end, 0)]]

    def lead(self, span: Span) -> str:
        """The folded word before a span."""
        return self.tokens[span.first - 1].folded if span.first > 0 else ""

    def cues(self, stems: frozenset[str]) -> list[int]:
        """Positions of these stems outside longer names."""
        inside = {
            i for s in self.sentence.spans if s.kind == "name" and s.last - s.first > 1 for i in range(s.first, s.last)
        }
        return [i for i, token in enumerate(self.tokens) if token.stem in stems and i not in inside]

    def names(self, person: bool = False) -> list[Span]:
        """The names other than the thing's own."""
        return [
            s
            for s in self.sentence.spans
            if s.kind == "name"
            and not (s.first < self.at[1] and self.at[0] < s.last)
            and not (person and _NOT_PERSON.search(s.text))
        ]

    def title(self) -> Span | None:
        """The title of the sentence as a span, if that is another thing."""
        plain = re.sub(r"\s*\([^()]*\)$", "", self.sentence.title)
        return Span(plain, -1, 0, "name") if plain and not self.about else None

    def brackets(self) -> list[tuple[int, int]]:
        """Bracketed parts: all in the first sentence of a text about the thing, else those after the thing."""
        opening = self.about and self.sentence.order == 0
        found, opened, depth = [], -1, 0
        for i, token in enumerate(self.tokens):
            if token.text == "(":
                opened, depth = (i if depth == 0 else opened), depth + 1
            elif token.text == ")" and depth:
                depth -= 1
                if depth == 0 and (opening or self.at[1] - 1 <= opened <= self.at[1] + 14):
                    found.append((opened, i))
        return found

    def copula(self) -> int | None:
        """The first `is` or `was` after the thing and its brackets."""
        inside = {i for pair in self.brackets() for i in range(*pair)}
        start = max(self.at[1], 0)
        return next(
            (i for i in range(start, len(self.tokens)) if self.tokens[i].folded in COPULAS and i not in inside), None
        )


_SUBJECT = re.compile(
    rf"(He|She|It|They)\b(?!['’])|(His|Her|Its|Their)\b|(The (?:{'|'.join(sorted(TITLE_NOUNS))}))\b(?! of\b)"
)


def standalone(sentence: Sentence) -> str:
    """Make a sentence understandable alone: replace a leading pronoun by the title, or put the title before it."""
    title = re.sub(r"\s*\([^()]*\)$", "", sentence.title)
    text = sentence.text
    if not title:
        return text
    words = {t.folded for t in sentence.tokens}
    if all(word in words for word in name_key(title)):
        return text
    lead = _SUBJECT.match(text)
    if lead:
        rest = text[lead.end() :]
        owner = title + ("'" if title.endswith("s") else "'s")
        return (owner if lead[2] else title) + rest
    return f"{title}: {text}"
