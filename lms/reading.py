"""Finding values in sentences: what they say about the relation of a named thing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from knowgap.lms.language import (
    COPULAS,
    Sentence,
    Span,
    analyse,
    fold,
    locate,
    name_key,
    same_name,
    sentences_of,
    words,
)
from knowgap.lms.relations import Relation

__all__ = ["STRICT", "TITLE_NOUNS", "Found", "find_values", "matches", "read_passage", "read_statement"]

STRICT = 2.0
"""The score from which a value counts as stated, not guessed."""

_PRONOUNS = words("he she it they his her its their him them")
_POSSESSIVES = words("his her its their 's ’s")
_IN = words("in at near to into on from of outside around by through within")
_NOT_PERSON = re.compile(
    r"\b(?:University|College|School|Company|Corporation|Inc|Ltd|Records|Studios?|Pictures|Films?|Entertainment|Festival|Awards?"
    r"|Museum|Church|City|County|River|Party|League|Club|Street|Institute|Academy|Award|Prize|Series|TV|Productions?)\b"
)
TITLE_NOUNS = words(
    "film movie song album band group novel book company village town city river building school university series "
    "show game magazine newspaper museum festival station club team airport bridge story play opera single"
)
_BORN, _DIED = frozenset({"born", "birth"}), frozenset({"die", "death", "kill", "dead", "murder", "execut"})
_BREAK = frozenset(";")
_OCCUPATION_END = re.compile(
    r"[,.;()]| (?:who|that|which|from|for|of|in|at|best|known|and is|and was|born|with|based) "
)


@dataclass(frozen=True, slots=True)
class Found:
    """A value that a sentence gives, how well (see `STRICT`), and the sentence."""

    value: str
    score: float
    sentence: Sentence
    span: Span


def read_passage(title: str, text: str, source: int = 0) -> tuple[Sentence, ...]:
    """The sentences of a passage, each about the passage's title."""
    return tuple(analyse(part, title, source, order) for order, part in enumerate(sentences_of(text)))


def read_statement(text: str, source: int = 0) -> tuple[Sentence, ...]:
    """The sentences of a statement or note; each about what its colon ends, or its first name."""
    found = []
    for line in text.splitlines():
        line = line.strip().lstrip("-*• ")
        title, colon, rest = line.partition(": ")
        if colon and len(title) <= 80 and title[:1].isupper() | title[:1].isdigit() and not re.search(r"[.!?] ", title):
            parts = [(title, part) for part in sentences_of(rest)]
        else:
            parts = [("", part) for part in sentences_of(line)]
        subject = ""
        for given, part in parts:
            names = [s for s in analyse(part).spans if s.kind == "name"]
            subject = given or (names[0].text if names and names[0].first <= 3 else subject)
            found.append(analyse(part, subject, source, len(found)))
    return tuple(found)


def matches(sentence: Sentence, name: str) -> float:
    """How far a sentence is about a name: by its title, by naming it, or not (0)."""
    about = same_name(sentence.title, name)
    if about:
        return about
    return 0.6 if locate(sentence, name) else 0.0


def find_values(name: str, relation: Relation, sentences: Sequence[Sentence]) -> list[Found]:
    """What the sentences give as the `relation` of `name`, best first, each value once."""
    best: dict[tuple[str | float, ...], Found] = {}
    for sentence in sentences:
        about = same_name(sentence.title, name)
        at = locate(sentence, name)
        if at is None and not about:
            continue
        if at is None:
            at = _subject(sentence)
        certainty = about or (0.85 if at[0] <= 1 else 0.75)
        for span, score in _READERS.get(relation.kind, _read_name)(sentence, at, about, relation):
            if relation.kind not in ("nationality", "occupation", "number") and same_name(span.text, name):
                continue
            found = Found(span.text, score * (0.5 + 0.5 * certainty) - 0.01 * sentence.order, sentence, span)
            key = span.value or name_key(span.text)
            if key not in best or found.score > best[key].score:
                best[key] = found
    return sorted(best.values(), key=lambda f: (-f.score, f.sentence.source, f.sentence.order, f.span.first))


def _subject(sentence: Sentence) -> tuple[int, int]:
    """Where a sentence refers to what it is about without its full name; before the first word if nowhere."""
    key = name_key(sentence.title)
    for i, token in enumerate(sentence.tokens[:12]):
        if token.folded in _PRONOUNS or (key and token.folded in (key[-1], key[0]) and token.text[0].isupper()):
            return i, i + 1
        if token.folded == "the" and i + 1 < len(sentence.tokens) and sentence.tokens[i + 1].folded in TITLE_NOUNS:
            return i, i + 2
    return -1, 0


def _cues(sentence: Sentence, stems: frozenset[str]) -> list[int]:
    if not stems & (sentence.stems | {t.stem for t in sentence.tokens if t.stem in stems}):
        return []
    return [i for i, token in enumerate(sentence.tokens) if token.stem in stems]


def _names(sentence: Sentence, person: bool = False) -> list[Span]:
    return [s for s in sentence.spans if s.kind == "name" and not (person and _NOT_PERSON.search(s.text))]


def _overlaps(span: Span, at: tuple[int, int]) -> bool:
    return span.first < at[1] and at[0] < span.last


def _words(sentence: Sentence, start: int, end: int) -> list[str]:
    return [t.folded for t in sentence.tokens[max(start, 0) : max(end, 0)]]


# One reader for each kind of value: pairs of a span and a score.

Reading = Iterator[tuple[Span, float]]


def _read_name(sentence: Sentence, at: tuple[int, int], about: float, relation: Relation) -> Reading:
    """Holders of a noun, agents or patients of a verb, and the other side of an inverse noun."""
    spans = [s for s in _names(sentence, relation.kind == "person") if not _overlaps(s, at)]
    for k in _cues(sentence, relation.nouns):
        yield from _by_noun(sentence, at, about, spans, k)
    for k in _cues(sentence, relation.inverse):
        yield from _by_inverse(sentence, at, about, spans, k)
    for k in _cues(sentence, relation.verbs):
        yield from _by_verb(sentence, at, about, spans, k, relation)


def _inside(spans: list[Span], k: int) -> bool:
    return any(s.first <= k < s.last and s.last - s.first > 1 for s in spans)


def _after(spans: list[Span], k: int, window: int = 6) -> Span | None:
    return next((s for s in spans if k < s.first <= k + window), None)


def _before(spans: list[Span], k: int, window: int = 12) -> Span | None:
    return next((s for s in reversed(spans) if k - window <= s.last - 1 < k), None)


def _by_noun(sentence: Sentence, at: tuple[int, int], about: float, spans: list[Span], k: int) -> Reading:
    """`Y is the director of X`, `the director of X is Y`, `X's director, Y`, `its director Y`, `music by Y`."""
    tokens = sentence.tokens
    if _inside(list(sentence.spans), k):
        return
    follow = tokens[k + 1].folded if k + 1 < len(tokens) else ""
    owner = next((i for i in range(k - 1, max(k - 5, -1), -1) if tokens[i].folded in _POSSESSIVES), -1)
    after, before = _after(spans, k), _before(spans, k)
    if follow == "by" or (follow in ("was", "is") and "by" in _words(sentence, k + 1, k + 6)):
        if after is not None and (at[0] < k or about):
            yield after, 2.6
        return
    if owner >= 0:
        mine = (
            at[1] >= owner >= at[0] or at[1] == owner
            if tokens[owner].folded.endswith("s") and tokens[owner].folded[0] in "'’"
            else (about > 0 or at[0] < owner)
        )
        if mine:
            if after is not None and after.first - k <= 5:
                yield after, 3.0
            elif before is not None and before.last <= owner:
                yield before, 2.4
        elif _after([s for s in sentence.spans if _overlaps(s, at)], k, 4):  # Y's son X asks the inverse
            return
        return
    if follow in ("of", "for", "to", "in", "behind", "on"):
        mine = k < at[0] <= k + 8 or (
            about and bool({"it", "film", "song", "album", "book", "band"} & set(_words(sentence, k + 1, k + 5)))
        )
        if mine:
            behind = _after(spans, max(at[1] - 1, k), 8)
            linked = behind is not None and bool(
                COPULAS & set(_words(sentence, at[1], behind.first)) or behind.first - at[1] <= 1
            )
            if linked and behind is not None and (before is None or k <= 2):
                yield behind, 3.0
            elif before is not None:
                yield before, 3.0
            elif (
                about == 0
                and sentence.title
                and not same_name(sentence.title, " ".join(t.text for t in tokens[at[0] : at[1]]))
            ):
                yield _title_span(sentence), 2.6
        return
    if after is not None and after.first - k <= 2:
        yield after, 2.2 if at[0] < k else 1.8
    elif before is not None and k - before.last <= 2 and at[0] < k:
        yield before, 1.2


def _by_inverse(sentence: Sentence, at: tuple[int, int], about: float, spans: list[Span], k: int) -> Reading:
    """X is the son of Y; Y's son X; the son of Y and Z."""
    tokens = sentence.tokens
    follow = tokens[k + 1].folded if k + 1 < len(tokens) else ""
    if _inside(list(sentence.spans), k):
        return
    if follow in ("of", "to") and at[0] < k:
        between = [
            s for s in spans if at[1] <= s.first < k and "," not in _words(sentence, s.last, k) and s.last < k - 4
        ]
        after = _after(spans, k, 8)
        if after is not None:
            yield after, (2.4 if between else 3.0)
            second = _after(spans, after.last, 3)
            if second is not None and "and" in _words(sentence, after.last, second.first):
                yield second, 2.3
        return
    owner = next((i for i in range(k - 1, max(k - 5, -1), -1) if tokens[i].folded in _POSSESSIVES), -1)
    if owner >= 0 and tokens[owner].folded[0] in "'’" and k < at[0] <= k + 5:
        before = _before(spans, owner + 1, 4)
        if before is not None:
            yield before, 3.0
    elif owner >= 0 and k < at[0] <= k + 5 and not about and sentence.title:
        yield _title_span(sentence), 2.8


def _by_verb(
    sentence: Sentence, at: tuple[int, int], about: float, spans: list[Span], k: int, relation: Relation
) -> Reading:
    """Y directed X; X, directed by Y; and the other way round where the value is what X directed."""
    by = _by(sentence, k)
    if relation.patient:
        if by is not None and by < at[0] <= by + 8:
            before = _before(spans, k)
            yield (before, 3.0) if before is not None else (_title_span(sentence), 2.6 if not about else 0.0)
        elif by is None and at[0] < k and (about or at[1] > k - 8):
            after = _after(spans, k, 8)
            if after is not None:
                yield after, 2.5
        elif k < at[0] <= k + 8:
            before = _before(spans, k)
            yield (before, 2.2) if before is not None else (_title_span(sentence), 2.0 if not about else 0.0)
        return
    if by is not None:
        if at[0] < by:
            after = _after(spans, by, 5)
            if after is not None:
                yield after, 3.0
        return
    if (
        relation.kind == "thing"
        and at[0] < k
        and relation.name in ("alma mater", "employer", "award", "mouth", "source")
    ):
        after = _after(spans, k, 10)
        if after is not None:
            yield after, 2.6
        return
    if relation.name == "spouse":
        after = _after(spans, k, 6) if at[0] < k else None
        before = _before(spans, k, 8) if at[0] > k else None
        other = after or before
        if other is not None:
            yield other, 3.0
        elif at[0] > k and not about and sentence.title:
            yield _title_span(sentence), 2.8
        return
    if k < at[0] <= k + 14:
        before = _before(spans, k, 8)
        spoken = _words(sentence, 0, k)
        if before is not None and not (set(spoken) & {"he", "she"} and not about):
            yield before, 2.6
        elif not about and sentence.title:
            yield _title_span(sentence), 2.6
    elif at[0] < k and relation.kind == "person":
        after = _after(spans, k, 3)
        if after is not None and "who" not in _words(sentence, at[1], k):
            yield after, 0.8


def _by(sentence: Sentence, k: int) -> int | None:
    """The `by` that makes the verb at `k` passive, with no name in between."""
    names = {i for s in sentence.spans if s.kind == "name" for i in range(s.first, s.last)}
    for i in range(k + 1, min(k + 8, len(sentence.tokens))):
        if i in names or sentence.tokens[i].folded in (".", ";", ")"):
            return None
        if sentence.tokens[i].folded == "by":
            return i
    return None


def _title_span(sentence: Sentence) -> Span:
    return Span(re.sub(r"\s*\([^()]*\)$", "", sentence.title), -1, 0, "name")


def _brackets(sentence: Sentence, at: tuple[int, int]) -> tuple[int, int] | None:
    """The brackets right after a name, where lives are dated."""
    tokens = sentence.tokens
    opened = next((i for i in range(max(at[1] - 1, 0), min(at[1] + 9, len(tokens))) if tokens[i].text == "("), None)
    if opened is None:
        return None
    closed = next((i for i in range(opened, min(opened + 45, len(tokens))) if tokens[i].text == ")"), len(tokens))
    return opened, closed


def _read_date(sentence: Sentence, at: tuple[int, int], about: float, relation: Relation) -> Reading:
    """Dates by a verb, in the brackets after a name, or the year of a film."""
    dates = [s for s in sentence.spans if s.kind == "date"]
    if not dates:
        return
    inside = _brackets(sentence, at)
    birth, death = bool(relation.cues & _BORN), bool(relation.cues & _DIED)
    if inside and (birth or death):
        lives = [s for s in dates if inside[0] < s.first < inside[1]]
        spoken = _words(sentence, *inside)
        dash = next(
            (i for i in range(*inside) if sentence.tokens[i].text in "–-—" or sentence.tokens[i].folded == "died"), None
        )
        if len(lives) >= 1 and dash is not None:
            earlier, later = [s for s in lives if s.last <= dash], [s for s in lives if s.first > dash]
            if birth and earlier:
                yield earlier[0], 3.2
            if death and later:
                yield later[0], 3.2
        elif len(lives) >= 1 and birth and "died" not in spoken and ({"born", "b"} & set(spoken)):
            yield lives[0], 3.2
    for k in _cues(sentence, relation.verbs | relation.nouns):
        if birth and inside and inside[0] < k < inside[1] and not lives_born(sentence, k):
            continue
        later = next(
            (s for s in dates if k < s.first <= k + 12 and not _other_event(sentence, k, s.first, relation)), None
        )
        earlier = next((s for s in reversed(dates) if k - 12 <= s.last - 1 < k), None)
        if later is not None:
            yield later, 3.0 if at[0] < k else 2.2
        elif earlier is not None and not _other_event(sentence, earlier.last, k, relation):
            yield earlier, 2.5
    if relation.name in ("release date", "date", "founding date"):
        for span in dates:
            following = _words(sentence, span.last, span.last + 7)
            if at[0] < span.first <= at[1] + 6 and COPULAS & set(_words(sentence, at[1], span.first)) and following:
                yield span, 2.6 if relation.name == "release date" else 1.6
        yield dates[0], 0.8


def lives_born(sentence: Sentence, k: int) -> bool:
    """Whether the word at `k` says `born`."""
    return sentence.tokens[k].stem in _BORN


def _other_event(sentence: Sentence, start: int, end: int, relation: Relation) -> bool:
    """Whether another life event stands between a cue and a date."""
    between = {sentence.tokens[i].stem for i in range(start + 1, end)}
    if relation.cues & _BORN:
        return bool(between & _DIED)
    return bool(relation.cues & _DIED and between & _BORN)


def _read_place(sentence: Sentence, at: tuple[int, int], about: float, relation: Relation) -> Reading:
    """The place after a verb and a preposition, in dated brackets, or in `is a town in X`."""
    names = _names(sentence)
    birth, death = bool(relation.cues & _BORN), bool(relation.cues & _DIED)
    inside = _brackets(sentence, at)
    if inside and (birth or death):
        dash = next((i for i in range(*inside) if sentence.tokens[i].text in "–-—"), inside[1])
        part = (inside[0], dash) if birth else (dash, inside[1])
        place = next((s for s in names if part[0] < s.first < part[1]), None)
        if place is not None and any(s.kind == "date" and inside[0] < s.first < inside[1] for s in sentence.spans):
            yield _whole_place(sentence, place, names), 2.8
    for k in _cues(sentence, relation.verbs | relation.nouns):
        if at[0] > k and not (relation.nouns and sentence.tokens[k].stem in relation.nouns):
            continue
        for span in names:
            if not k < span.first <= k + 16 or _overlaps(span, at):
                continue
            if _other_event(sentence, k, span.first, relation):
                break
            lead = _words(sentence, span.first - 3, span.first)
            direct = bool(lead) and (
                lead[-1] in _IN - {"of", "by"} or (lead[-1] in ("the", "of") and bool(_IN & set(lead[:-1])))
            )
            if direct or span.first == k + 1 or (COPULAS & set(lead) and sentence.tokens[k].stem in relation.nouns):
                yield _whole_place(sentence, span, names), 3.0
                break
    if relation.name in ("location", "country", "headquarters", "residence"):
        verb = next(
            (
                i
                for i in range(max(at[1], 0), min(at[1] + 20, len(sentence.tokens)))
                if sentence.tokens[i].folded in COPULAS
            ),
            None,
        )
        if verb is not None:
            for span in names:
                if span.first > verb and sentence.tokens[span.first - 1].folded in (
                    "in",
                    "of",
                    "at",
                    "on",
                    "the",
                    "near",
                ):
                    yield _whole_place(sentence, span, names), 2.2 if relation.name == "location" else 1.4
                    break


def _whole_place(sentence: Sentence, span: Span, names: list[Span]) -> Span:
    """A place with what it lies in: `Montreal, Quebec`."""
    last = span
    for following in names:
        if (
            following.first == last.last + 1
            and sentence.tokens[last.last].text == ","
            and following.last - span.first <= 9
        ):
            last = following
    text = sentence.text[sentence.tokens[span.first].start : sentence.tokens[last.last - 1].end]
    return Span(text, span.first, last.last, "name")


def _read_nationality(sentence: Sentence, at: tuple[int, int], about: float, relation: Relation) -> Reading:
    """The capitalised adjective in `is a Hungarian director`; for things also the country that they lie in."""
    tokens = sentence.tokens
    verb = next((i for i in range(max(at[1], 0), min(at[1] + 40, len(tokens))) if tokens[i].folded in COPULAS), None)
    if verb is not None:
        for i in range(verb + 1, min(verb + 8, len(tokens))):
            if tokens[i].text[0].isupper():
                last = i + 1
                while (
                    last < len(tokens)
                    and tokens[last].text[0].isupper()
                    and tokens[last - 1].end + 1 == tokens[last].start
                ):
                    last += 1
                if (
                    last < len(tokens)
                    and tokens[last].text[0].islower()
                    and tokens[last].folded not in _IN | {"and", "who"}
                ):
                    yield Span(tokens[last - 1].text, last - 1, last, "name"), 3.0
                break
            if tokens[i].folded in _IN:
                break
    if relation.name == "country":
        for span, score in _read_place(sentence, at, about, _COUNTRY_PLACE):
            part = span.text.split(",")[-1].strip()
            if score >= 2:
                yield Span(part, span.first, span.last, "name"), 2.4
    for k in _cues(sentence, relation.nouns):
        after = _after(_names(sentence), k, 4)
        if after is not None:
            yield after, 2.2


_COUNTRY_PLACE = Relation("location", "place", frozenset(), frozenset({"locat", "situat", "lie", "base"}))


def _read_occupation(sentence: Sentence, at: tuple[int, int], about: float, relation: Relation) -> Reading:
    """The lower-case noun phrase in `is a Hungarian film director and screenwriter who …`."""
    tokens = sentence.tokens
    verb = next((i for i in range(max(at[1], 0), min(at[1] + 40, len(tokens))) if tokens[i].folded in COPULAS), None)
    if verb is None or verb + 1 >= len(tokens) or tokens[verb + 1].folded not in ("a", "an", "the", "one"):
        return
    start = verb + 2
    while start < len(tokens) and tokens[start].text[0].isupper():
        start += 1
    if start < len(tokens):
        phrase = _OCCUPATION_END.split(sentence.text[tokens[start].start :] + " ", maxsplit=1)[0].strip()
        if phrase:
            yield Span(phrase, start, start + 1, "name"), 2.6


def _read_number(sentence: Sentence, at: tuple[int, int], about: float, relation: Relation) -> Reading:
    """The number beside its noun, with the unit that follows it."""
    numbers = [s for s in sentence.spans if s.kind == "number"]
    for k in _cues(sentence, relation.cues):
        near = sorted((s for s in numbers if abs(s.first - k) <= 8), key=lambda s: (abs(s.first - k), s.first))
        if near:
            yield near[0], 3.0 if near[0].first <= k <= near[0].first + 4 else 2.2
    if relation.name == "lifespan":
        lives = [s for s in sentence.spans if s.kind == "date"]
        inside = _brackets(sentence, at)
        if inside and len(pair := [s for s in lives if inside[0] < s.first < inside[1]]) == 2:
            years = pair[1].value[0] - pair[0].value[0]
            yield Span(f"{years:g}", pair[0].first, pair[1].last, "number", (years,)), 3.0


_READERS = {
    "date": _read_date,
    "place": _read_place,
    "nationality": _read_nationality,
    "occupation": _read_occupation,
    "number": _read_number,
}


@lru_cache(maxsize=4096)
def comparable(text: str) -> str:
    """A value in the form in which two of them are compared."""
    return fold(text).strip(" .,")
