"""Find the value of a named thing's relation in sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from knowgap.lms.embedded.english.language import COPULAS, Sentence, Span, name_key, same_name, words
from knowgap.lms.embedded.english.names import LINKS, PLACED, Reading, following, ranked, read_name
from knowgap.lms.embedded.english.relations import Relation
from knowgap.lms.embedded.english.sentences import View, view

__all__ = ["STRICT", "Found", "find_values"]

STRICT = 2.0
"""The lowest score at which a value counts as stated, not guessed."""

_BORN, _DIED = words("born birth"), words("die death kill murder execut")
_PHRASE_END = re.compile(r"[,.;()]| (?:who|that|which|from|for|of|in|at|best|known|with|based|and (?:is|was)|born) ")


@dataclass(frozen=True, slots=True)
class Found:
    """A value, its score (see `STRICT`) and the sentence that states it."""

    value: str
    score: float
    sentence: Sentence
    span: Span


def find_values(name: str, relation: Relation, sentences: Sequence[Sentence]) -> list[Found]:
    """Find the values of the `relation` of `name` in sentences, best first, each once."""
    best: dict[tuple[str | float, ...], Found] = {}
    read = _READERS.get(relation.kind, read_name)
    for sentence in sentences:
        seen = view(sentence, name)
        if seen is None:
            continue
        certainty = seen.about or (0.85 if seen.at[0] <= 1 else 0.75)
        for span, score in read(seen, relation):
            if read is read_name and same_name(span.text, name):
                continue
            found = Found(span.text, score * (0.5 + 0.5 * certainty) - 0.01 * sentence.order, sentence, span)
            key = span.value or name_key(span.text)
            if key not in best or found.score > best[key].score:
                best[key] = found
    return sorted(best.values(), key=lambda f: (-f.score, f.sentence.source, f.sentence.order, f.span.first))


def _foreign(seen: View, start: int, end: int, relation: Relation) -> bool:
    """Whether another life event stands between a cue and a value."""
    between = {token.stem for token in seen.tokens[start + 1 : end]}
    return bool(between & _DIED if relation.cues & _BORN else between & _BORN if relation.cues & _DIED else ())


def _dated_brackets(seen: View) -> tuple[tuple[int, int], list[Span]]:
    """The first brackets with dates in them, and those dates."""
    for pair in seen.brackets():
        dates = [s for s in seen.sentence.spans if s.kind == "date" and pair[0] < s.first < pair[1]]
        if dates:
            return pair, dates
    return (0, 0), []


def _life(seen: View, relation: Relation, spans: list[Span]) -> Span | None:
    """Pick the part of `(birth – death)` after a name that the relation asks for, among dates or places."""
    if not relation.cues & (_BORN | _DIED):
        return None
    inside, dates = _dated_brackets(seen)
    marks = [i for i in range(*inside) if seen.tokens[i].text in "–—-" or seen.tokens[i].folded in ("died", "d")]
    # A hyphen inside a name is no dash between two dates.
    marks = [i for i in marks if not any(s.first < i < s.last for s in seen.sentence.spans)]
    middle = marks[0] if marks else dates[1].first if len(dates) == 2 else inside[1]
    if not dates or (middle == inside[1] and not {"born", "b"} & set(seen.words(*inside))):
        return None
    low, high = (inside[0], middle) if relation.cues & _BORN else (middle - (not marks), inside[1])
    return next((s for s in spans if low < s.first < high), None)


def _read_date(seen: View, relation: Relation) -> Reading:
    """Dates by a verb, in the brackets after a name, or the year of a film."""
    dates = [s for s in seen.sentence.spans if s.kind == "date"]
    if (life := _life(seen, relation, dates)) is not None:
        yield life, 3.2
    for k in seen.cues(relation.verbs | relation.nouns):
        later = next((s for s in dates if k < s.first <= k + 14 and not _foreign(seen, k, s.first, relation)), None)
        earlier = next((s for s in reversed(dates) if k - 14 <= s.last - 1 < k), None)
        if later is not None:
            yield later, 3.0 if seen.at[0] < k or seen.about else 2.2
        elif earlier is not None and not _foreign(seen, earlier.last, k, relation):
            yield earlier, 2.5
    if relation.name in ("release date", "date", "founding date") and dates:
        copula = seen.copula()
        for span in dates:
            if copula is not None and 0 < span.first - copula <= 4:
                yield span, 2.6 if relation.name == "release date" else 1.6
        yield dates[0], 0.8


def _read_place(seen: View, relation: Relation) -> Reading:
    """The place after a verb and a preposition, in dated brackets, or in `is a town in X`."""
    names = seen.names()
    if (life := _life(seen, relation, names)) is not None:
        yield _whole_place(seen, life, names), 2.8
    for k in seen.cues(relation.verbs | relation.nouns):
        if seen.words(k + 1, k + 2) == ["there"]:  # moved to Porto and died there
            places = [s for s in names if s.last <= k and seen.lead(s) in PLACED]
            if places:
                yield places[-1], 2.8
            elif title := seen.title():
                yield title, 2.4
            continue
        noun = seen.tokens[k].stem in relation.nouns and seen.tokens[k].stem not in relation.verbs
        if seen.at[0] > k and not noun and not (seen.about and k <= 2):
            continue
        for span in (s for s in names if k < s.first <= k + 18):
            if _foreign(seen, k, span.first, relation):
                break
            lead = seen.words(max(span.first - 4, k), span.first)
            direct = bool(PLACED & set(lead[-2:])) or (noun and bool({"of", *COPULAS} & set(lead)))
            if direct:
                yield _whole_place(seen, span, names), 3.0
                break
    if relation.name in ("location", "country", "headquarters", "residence"):
        copula = seen.copula()
        leads = PLACED | {"the", "of"}
        span = next((s for s in names if copula is not None and s.first > copula and seen.lead(s) in leads), None)
        if span is not None:
            yield _whole_place(seen, span, names), 2.2 if relation.name in ("location", "country") else 1.4


def _whole_place(seen: View, span: Span, names: list[Span]) -> Span:
    """A place with what it lies in: `Montreal, Quebec`."""
    last = span
    for other in names:
        if seen.words(last.last, other.first) == [","] and other.last - span.first <= 9:
            last = other
    text = seen.sentence.text[seen.tokens[span.first].start : seen.tokens[last.last - 1].end]
    return Span(text, span.first, last.last, "name")


def _read_nationality(seen: View, relation: Relation) -> Reading:
    """The capitalised adjective in `is a Hungarian director`; for things also the country that they lie in."""
    tokens, copula = seen.tokens, seen.copula()
    if copula is not None and set(seen.words(copula + 1, copula + 4)) & {"a", "an", "the", "one"}:
        ahead = range(copula + 1, min(copula + 8, len(tokens)))
        first = next((i for i in ahead if tokens[i].text[0].isupper() or tokens[i].folded in PLACED), len(tokens))
        last = first
        while last < len(tokens) and (tokens[last].text[0].isupper() or tokens[last].text == "-"):
            last += 1
        if first < last < len(tokens) and tokens[last].text[0].islower() and tokens[last].folded not in LINKS:
            adjectives = [token.text for token in tokens[first:last] if token.text != "-"]
            yield Span(adjectives[-1], last - 1, last, "name"), 3.0
    names = seen.names()
    if copula is not None:
        yield from ranked([s for s in names if copula < s.first <= copula + 8 and seen.lead(s) == "from"][:1], 2.6)
    if relation.name == "country":
        place = Relation("location", "place", frozenset(), frozenset({"locat", "situat", "lie", "base"}))
        places = [score for _, score in _read_place(seen, place)]
        ends = [s for s in names if seen.lead(s) in (",", "in", "of")]
        if places and ends:
            yield ends[-1], max(places)
    for k in seen.cues(relation.nouns):  # her nationality is Danish; held Danish citizenship; Danish by nationality
        near = following(seen, names, k, 4)[:1] or [s for s in names if k - 3 < s.last <= k]
        yield from ranked(near, 2.2)


def _read_phrase(seen: View, relation: Relation) -> Reading:
    """What someone is (`is a Hungarian film director and screenwriter`) or died of."""
    tokens = seen.tokens
    if relation.name == "cause of death":
        for k in seen.cues(relation.verbs):
            rest = seen.sentence.text[tokens[k].end :]
            if lead := re.search(r"\b(?:of|from|due to|by|after|following) (?:an? |the )?", rest):
                yield Span(_phrase(rest[lead.end() :]), k, k + 1, "name"), 2.6
        return
    copula = seen.copula()
    start = (copula or 0) + 2
    if copula is None or start > len(tokens) or tokens[start - 1].folded not in ("a", "an", "the", "one"):
        return
    while start < len(tokens) and (tokens[start].text[0].isupper() or tokens[start].text == "-"):
        start += 1
    if start < len(tokens):
        yield Span(_phrase(seen.sentence.text[tokens[start].start :]), start, start + 1, "name"), 2.6


def _phrase(text: str) -> str:
    return _PHRASE_END.split(text + " ", maxsplit=1)[0].strip()


def _read_number(seen: View, relation: Relation) -> Reading:
    """The number beside its noun, or the years between birth and death."""
    numbers = [s for s in seen.sentence.spans if s.kind == "number"]
    for span in seen.sentence.spans:  # 1251 kilometres is no year
        following = {token.stem for token in seen.tokens[span.last : span.last + 1]}
        if span.kind == "date" and not span.value[1] and relation.cues & following:
            numbers.append(span._replace(kind="number", value=span.value[:1]))
    for k in seen.cues(relation.cues):
        near = sorted((s for s in numbers if abs(s.first - k) <= 8), key=lambda s: (abs(s.first - k), s.first))
        if near:
            unit = seen.tokens[near[0].last] if near[0].last < len(seen.tokens) else None
            if unit and unit.stem in relation.cues and relation.name in ("length", "height", "area"):
                near[0] = near[0]._replace(text=f"{near[0].text} {unit.text}")
            yield near[0], 3.0 if near[0].first <= k <= near[0].first + 4 else 2.2
    if relation.name == "lifespan":
        lives = _dated_brackets(seen)[1]
        if len(lives) == 2:
            years = lives[1].value[0] - lives[0].value[0]
            yield Span(f"{years:g}", lives[0].first, lives[1].last, "number", (years,)), 3.0


_READERS: dict[str, Callable[[View, Relation], Reading]] = {
    "date": _read_date,
    "place": _read_place,
    "nationality": _read_nationality,
    "phrase": _read_phrase,
    "number": _read_number,
}
