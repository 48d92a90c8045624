"""Removes from a reply the field names and values that it quotes from a text that the model was shown.

Otherwise, a passage that contains `Answer: …` could determine the answer, even after its marks were made harmless,
since a model may restore them. A field's value in a reply is a quotation if a shown text has the same value under the
same name, whatever the marks, white space and letter case. Other text stays, even if it occurs in a passage.
"""

from __future__ import annotations

import html
import itertools
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from knowgap.programs.replies import forms
from knowgap.programs.replies.outputs import map_texts

_SHOWN: ContextVar[str] = ContextVar("_SHOWN", default="")
_QUESTION: ContextVar[str] = ContextVar("_QUESTION", default="")
_OF_THE_ASKER = frozenset({"question", "style", "expected", "wanted", "asked", "queries", "questions"})
"""Inputs that hold questions and instructions, and no text that was read."""
_INVISIBLE = "\u00ad\u200b-\u200f\u2060\ufeff"
_WORD = re.compile(rf"[^\W_](?:[^\W_]|[{_INVISIBLE}])*")
_CLAUSE_END = re.compile(r"[\n\"”“'’»«`<>{}|()\[\],;*\u2014\u2013]|[.!?:](?=\s|\Z)|\s-\s")
_ESCAPE = re.compile(r"\\+[nrt]")
_BETWEEN = re.compile(rf"{_ESCAPE.pattern}|</?\w[^<>\n]{{0,60}}>|(?<=\n)[ \t]*\d{{1,3}}[.)][ \t]")
"""What is not a word of a value: escaped white space, tags such as those of a highlight, line numbers."""
_MACHINE = {"chat": r"\[\s*\[[\s#]*", "json": r"\\*[\"'“‘]\s*", "xml": r"<\s*/?\s*"}
"""The pattern before a name in the requested form, which the labels of ordinary text do not match."""
_GAP = r"(?P<gap>(?:[\W_]{1,40}[^\W_]{1,30}){0,3}?[\W_]{1,40})"
_FORMAL = re.compile(r"[^\w\s,.'’]|\n")
"""A mark, such as a colon, that must occur between a name and its value."""
_PLACES = 200
"""The most field names that are examined in a reply, and the most places of each in the shown texts."""
_SKIPPED = 4
"""The most words, of the model's own or line numbers, between a name and the value that it quotes."""
_SHORT = 3
"""A first word of at most this many letters, such as an article, shows a quotation only together with the next."""


@contextmanager
def shown(inputs: Mapping[str, Any]) -> Iterator[None]:
    """Within this context, replies are read as replies to these inputs."""
    texts: list[str] = []
    map_texts([value for name, value in inputs.items() if name not in _OF_THE_ASKER], lambda t: texts.append(t) or t)
    tokens = _SHOWN.set(_visible("\n\n".join(texts))), _QUESTION.set(str(inputs.get("question") or ""))
    try:
        yield
    finally:
        _SHOWN.reset(tokens[0])
        _QUESTION.reset(tokens[1])


def question_asked() -> str:
    """The question among the inputs; empty if there is none."""
    return _QUESTION.get()


def is_shown(text: str) -> bool:
    """Whether a shown text contains this text, even within a word."""
    return _visible(text) in _SHOWN.get()


def shows_thoughts() -> bool:
    """Whether a shown text has a tag of a model's thoughts."""
    return re.search(r"</?think", _SHOWN.get(), re.I) is not None


class _Place(NamedTuple):
    """A name of a field in a reply: the form, the name, and the beginning and the end of its marks."""

    form: str
    name: str
    begin: int
    end: int


class _Words(NamedTuple):
    """The words of a text from some position on, the end of each, and the number of words in the first clause."""

    words: list[str]
    ends: list[int]
    clause: int


def without_quotations(text: str, names: tuple[str, ...], form: str, alone: bool = True) -> str:
    """A reply without the names and values of output fields that it quotes.

    If the reply begins with the requested form, the first value of a field is compared only with shown values in the
    same form, since ordinary text may contain a label with the right answer. With `alone`, a reply that is nothing but
    one field in its marks is kept.
    """
    source = _SHOWN.get()
    if not source or not (places := _places(text, names)):
        return text
    seen = set[str]()
    first = next((place.begin for place in places if place.form == form), 0)
    before = "" if _words(text[:first], 0).words else _MACHINE[form]
    own, kept, done, cut_to = _own_objects(text, names, source, before if form == "json" else ""), list[str](), 0, -1
    for place, following in zip(places, [*places[1:], None], strict=True):
        within = any(begin <= place.begin < end for begin, end in own)
        if within or place.begin < done:
            seen |= {place.name} if within else set()
            continue
        until = following.begin if following else len(text)
        if place.name == forms.END:
            end = place.end if cut_to >= 0 and not _WORD.search(text, cut_to, place.begin) else -1
        else:
            strictly = place.form == form and place.name not in seen
            end = _quoted_to(text[: max(until, place.end)], place, source, before if strictly else "")
            seen |= {place.name} if place.form == form else set()
        if end < 0:
            cut_to = -1
            continue
        if alone and len(names) == 1 and place.form == form and _is_whole(text, place, end, names):
            return text
        kept.append(text[done : place.begin])
        done = cut_to = end
    return "".join([*kept, text[done:]])


def _places(text: str, names: tuple[str, ...]) -> list[_Place]:
    """The names of fields in a text in order, without those within the marks of others."""
    found: list[_Place] = []
    patterns = {"chat": forms.marker(names), "xml": forms.tag(names), "json": forms.key(names)}
    for form, pattern in {**patterns, "label": forms.label(names), "inline": _inline(names)}.items():
        for match in list(pattern.finditer(text))[:_PLACES]:
            name = match[2] if form == "xml" else match[1]
            if form != "xml" or not match[1]:
                found.append(_Place(form, forms.plain_name(name), match.start(), match.end()))
    places: list[_Place] = []
    for place in found:  # a label within a marker, tag or key does not count
        if all(place.end <= other.begin or other.end <= place.begin for other in places):
            places.append(place)
    return sorted(places, key=lambda place: place.begin)


def _inline(names: tuple[str, ...]) -> re.Pattern[str]:
    """A label within a line; it is not read as a form, but may be part of a reply in plain text."""
    named = forms.alternatives(names)
    return re.compile(rf"(?:(?<![^\W_])|(?<=\\n))({named})[*_`\"'”’]{{0,3}}[ \t]*(?:[:=]|\\+n)", re.I)


def _quoted_to(text: str, place: _Place, source: str, before: str) -> int:
    """The end of a quotation that begins at a name in a reply, which is cut at the next name; -1 if there is none.

    `before` is the pattern that precedes the name in `source`, the shown texts.
    """
    value = _words(text, place.end)
    if not value.words:
        return -1
    name, ends = r"[\W_]{0,3}".join(map(re.escape, place.name)), [-1]
    for skipped, word in enumerate(value.words[: _SKIPPED + 1]):
        pattern = rf"{before}(?<![^\W_]){name}(?![^\W_]){_GAP}(?={re.escape(word)}(?![^\W_]))"
        for match in itertools.islice(re.finditer(pattern, source, re.I), _PLACES):
            said = _words(source, match.end(), len(value.words))
            pairs = zip(value.words[skipped:], said.words, strict=False)
            same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
            needed = 1 if len(word) > _SHORT else min(_SHORT, value.clause - skipped, said.clause)
            if _FORMAL.search(match["gap"]) and same >= max(1, needed, said.clause if skipped else 1):
                ends.append(value.ends[skipped + same - 1])
    return max(ends)


def _words(text: str, begin: int, limit: int = 2_000) -> _Words:
    rest = _BETWEEN.sub(lambda found: " " * len(found[0]), text[begin : begin + 20 * limit + 200])
    found = list(_WORD.finditer(rest))[:limit]
    if not found:
        return _Words([], [], 0)
    stop = _CLAUSE_END.search(rest, found[0].end())
    inside = sum(1 for match in found if not stop or match.end() <= stop.start())
    return _Words([_plain(match[0]) for match in found], [begin + match.end() for match in found], max(1, inside))


def _plain(word: str) -> str:
    return unicodedata.normalize("NFKC", re.sub(f"[{_INVISIBLE}]", "", word)).casefold()


def _visible(text: str) -> str:
    """A text with its characters written plainly, and without invisible ones."""
    text = html.unescape(_ESCAPE.sub("\n", text))
    return re.sub(f"[{_INVISIBLE}]", "", unicodedata.normalize("NFKC", text)).casefold()


def _is_whole(text: str, place: _Place, end: int, names: tuple[str, ...]) -> bool:
    """Whether a reply is one field in its marks and nothing else: then it answers in the words of a passage."""
    around = f"{text[: place.begin]} {text[end:]}"
    known = {forms.END, "json", "xml", *map(forms.plain_name, names)}
    return all(word.casefold() in known for word in re.findall(r"\w+", around))


def _own_objects(text: str, names: tuple[str, ...], source: str, before: str) -> list[tuple[int, int]]:
    """The spans of JSON objects with a text (or, without texts, any value) that no shown text has under its name.

    An object is not the model's own if it quotes a value for which a later object has one of its own: where a model
    forgets to escape a quotation, the quoted value ends a text of the object that the model began.
    """
    found: list[tuple[tuple[int, int], set[str], set[str]]] = []
    known = {forms.plain_name(name) for name in names}
    for value, begin, end in forms.json_objects(text, _PLACES):
        said = [(forms.plain_name(name), item) for name, item in value.items() if item not in (None, "", [])]
        said = [(name, item) for name, item in said if name in known]
        # A number may be the model's own although it quotes the rest.
        said = [pair for pair in said if isinstance(pair[1], str)] or said
        own, quoted = set[str](), set[str]()
        for name, item in said:
            written = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
            if _WORD.search(written):
                new = _quoted_to(written, _Place("json", name, 0, 0), source, before) < 0
                (own if new else quoted).add(name)
        found.append(((begin, end), own, quoted))
    spans, later = list[tuple[int, int]](), set[str]()
    for span, own, quoted in reversed(found):
        if own and not quoted & later:
            spans.append(span)
        later |= own
    return spans
