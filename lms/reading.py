"""Finding values in sentences: what they say about the relation of a named thing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from knowgap.lms.language import (
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
from knowgap.lms.relations import Relation

__all__ = ["STRICT", "TITLE_NOUNS", "Found", "find_values", "matches", "read_passage", "read_statement"]

STRICT = 2.0
"""The score from which a value counts as stated, not guessed."""

TITLE_NOUNS = words(
    "film movie song album band group novel book company village town city river building school university series "
    "show game magazine newspaper museum festival station club team airport bridge story play opera single"
)
_PRONOUNS = words("he she it they his her its their him them")
_POSSESSIVES = words("his her its their 's ’s 'S ’S")
_PLACED = words("in at near to into on from outside around through within")
_LINKS = _PLACED | words("of and or by for with as who which that , ; ( ) :") | COPULAS
_BORN, _DIED = words("born birth"), words("die death kill murder execut")
_NOT_PERSON = re.compile(
    r"\b(?:University|College|School|Company|Corporation|Inc|Ltd|Records|Studios?|Pictures|Films?|Festival|Awards?|Museum"
    r"|Church|City|County|River|Party|League|Club|Street|Institute|Academy|Prize|Series|TV|Productions?|Entertainment)\b"
)
_OTHER_ROLES = words("art assist execut manag music deputi vice casting sport technic")
_PHRASE_END = re.compile(r"[,.;()]| (?:who|that|which|from|for|of|in|at|best|known|with|based|and (?:is|was)|born) ")


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
    """The sentences of a note or statement; each is about the title before its colon, or the first name of its line."""
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
    """How far a sentence is about a name: by its title, by naming it (0.6), or not (0)."""
    return same_name(sentence.title, name) or (0.6 if locate(sentence, name) else 0.0)


def find_values(name: str, relation: Relation, sentences: Sequence[Sentence]) -> list[Found]:
    """What the sentences give as the `relation` of `name`, best first, each value once."""
    best: dict[tuple[str | float, ...], Found] = {}
    read = _READERS.get(relation.kind, _read_name)
    for sentence in sentences:
        about = same_name(sentence.title, name)
        at = locate(sentence, name)
        if at is None and not about:
            continue
        view = _View(sentence, at or _subject(sentence), about)
        certainty = about or (0.85 if view.at[0] <= 1 else 0.75)
        for span, score in read(view, relation):
            if read is _read_name and same_name(span.text, name):
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
        after = sentence.tokens[i + 1].folded if i + 1 < len(sentence.tokens) else ""
        if token.folded in _PRONOUNS or (token.folded == "the" and after in TITLE_NOUNS):
            return i, i + 1
        if token.folded in (*key[-1:], *key[:1]) and token.text[0].isupper():
            return i, i + 1
    return -1, 0


@dataclass(frozen=True, slots=True)
class _View:
    """A sentence seen from a thing: where it stands (`at`, token positions) and how far the sentence is about it."""

    sentence: Sentence
    at: tuple[int, int]
    about: float

    @property
    def tokens(self) -> tuple[Token, ...]:
        return self.sentence.tokens

    def words(self, start: int, end: int) -> list[str]:
        return [token.folded for token in self.tokens[max(start, 0) : max(end, 0)]]

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
        """What the sentence is about, as a span, if that is another thing."""
        plain = re.sub(r"\s*\([^()]*\)$", "", self.sentence.title)
        return Span(plain, -1, 0, "name") if plain and not self.about else None

    def brackets(self) -> list[tuple[int, int]]:
        """Bracketed stretches; in the sentence that opens a text about the thing all, else those after the thing."""
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


Reading = Iterator[tuple[Span, float]]


def _next(view: _View, spans: list[Span], k: int, window: int = 6) -> list[Span]:
    """The name after position `k`, past a descriptor (`English singer X`), and those listed with it."""
    following = [s for s in spans if s.first > k]
    while len(following) > 1 and (following[0].last - following[0].first == 1 or "-" in following[0].text):
        gap = view.words(following[0].last, following[1].first)
        if not 1 <= len(gap) <= 4 or (_LINKS - {"and"}) & set(gap) or gap[-1] == "and" or gap[0] == "and":
            break
        following.pop(0)
    if (
        not following
        or following[0].first > k + window + 4
        or (following[0].first > k + window and len(following) == len(spans))
    ):
        return []
    listed = following[:1]
    for span in following[1:]:
        gap = view.words(listed[-1].last, span.first)
        if not gap or not set(gap) <= {",", "and", "&"} or len(listed) == 4:
            break
        listed.append(span)
    return listed


def _before(spans: list[Span], k: int, window: int = 12) -> Span | None:
    return next((s for s in reversed(spans) if k - window <= s.last - 1 < k), None)


def _ranked(spans: Sequence[Span], score: float) -> Reading:
    for place, span in enumerate(spans):
        yield span, score - 0.1 * place


def _read_name(view: _View, relation: Relation) -> Reading:
    """Holders of a noun, agents or patients of a verb, and the other side of an inverse noun."""
    spans = view.names(relation.kind == "person")
    for k in view.cues(relation.nouns):
        yield from _by_noun(view, spans, k)
    for k in view.cues(relation.works):
        if view.words(k + 1, k + 2) == ["by"] or "by" in view.words(k + 1, k + 4)[:2]:
            yield from _ranked(_next(view, spans, k), 2.6)
    for k in view.cues(relation.inverse):
        yield from _by_inverse(view, spans, k, relation)
    for k in view.cues(relation.verbs):
        yield from (_patients if relation.patient else _agents)(view, spans, k, relation)


def _owner(view: _View, k: int) -> int:
    """Where the possessive of the noun at `k` stands (`his second wife`), or -1."""
    return next((i for i in range(k - 1, max(k - 5, -1), -1) if view.tokens[i].folded in _POSSESSIVES), -1)


def _by_noun(view: _View, spans: list[Span], k: int) -> Reading:
    """`Y is the director of X`, `the director of X is Y`, `X's director, Y`, `its director Y`, `music by Y`."""
    start, end = view.at
    follow = view.words(k + 1, k + 5)
    if k and view.tokens[k - 1].stem in _OTHER_ROLES:
        return
    after, before = _next(view, spans, k), _before(spans, k)
    owner = _owner(view, k)
    if follow[:1] == ["by"] or (follow[:1] in (["was"], ["is"]) and "by" in follow):
        if start < k or view.about:
            yield from _ranked(after, 2.6)
    elif owner >= 0:
        named = view.tokens[owner].folded[0] in "'’"
        if end == owner if named else (view.about or start < owner):
            if after and after[0].first - k <= 6:
                yield from _ranked(after, 3.0)
            elif before is not None and before.last <= owner:
                yield before, 2.4
    elif follow[:1] and follow[0] in ("of", "for", "to", "in", "behind", "on"):
        if not (k < start <= k + 8 or (view.about and TITLE_NOUNS & set(follow))):
            return
        behind = _next(view, spans, max(end - 1, k), 8)
        linked = behind and (COPULAS & set(view.words(end, behind[0].first)) or behind[0].first - end <= 1)
        if linked and (before is None or k <= 2):
            yield from _ranked(behind, 3.0)
        elif before is not None:
            yield before, 3.0
        elif title := view.title():
            yield title, 2.6
    elif after and after[0].first - k <= 2:
        yield from _ranked(after, 2.2 if start < k else 1.8)
    elif before is not None and k - before.last <= 2 and start < k:
        yield before, 1.2


_GENDER = {"his": "mother", "her": "father"}  # what the owner of a pronoun is not


def _by_inverse(view: _View, spans: list[Span], k: int, relation: Relation) -> Reading:
    """X is the son of Y and Z; the son of Y, X …; Y's son X."""
    start, _ = view.at
    owner = _owner(view, k)
    if view.words(k + 1, k + 2) in (["of"], ["to"]):
        after = _next(view, spans, k, 8)
        if after and (start < k or (view.about and k <= 3)):
            other = any(view.at[1] <= s.first and s.last >= k - 3 for s in spans if s.last <= k)
            yield from _ranked(after, 2.3 if other else 2.7)
    elif owner >= 0 and (title := view.title()) and start < owner and COPULAS & set(view.words(start, owner)):
        if _GENDER.get(view.tokens[owner].folded) != relation.name:  # X was his son: `he` is no mother
            yield title, 2.8
    elif owner < 0 and k < start <= k + 3 and {"had", "has"} & set(view.words(k - 4, k)):
        before = _before(spans, k, 6) or view.title()  # Y had a son, X
        if before is not None:
            yield before, 2.6
    elif owner >= 0 and k < start <= k + 6:
        if view.tokens[owner].folded[0] in "'’":
            before = _before(spans, owner + 1, 4)
            if before is not None:
                yield before, 2.7
        elif title := view.title():
            yield title, 2.7


def _by(view: _View, k: int) -> int | None:
    """The `by` that makes the verb at `k` passive, with no name in between."""
    names = {i for s in view.sentence.spans if s.kind == "name" for i in range(s.first, s.last)}
    for i, word in enumerate(view.words(k + 1, k + 8), start=k + 1):
        if i in names or word in ".;)":
            return None
        if word == "by":
            return i
    return None


def _agents(view: _View, spans: list[Span], k: int, relation: Relation) -> Reading:
    """Y directed X; X, directed by Y."""
    start = view.at[0]
    by = _by(view, k)
    after, before = _next(view, spans, k, 8), _before(spans, k, 8)
    if by is not None:
        if start < by:
            yield from _ranked(_next(view, spans, by), 3.0)
    elif start < k and view.words(k + 1, k + 2) in (["to"], ["with"]) and relation.name != "spouse":
        yield from _ranked(after, 2.2)  # signed to Y
    elif relation.name == "spouse":
        other = after if start < k else [before] if before is not None else []
        yield from _ranked(other, 3.0)
        if start > k and not other and (title := view.title()):
            yield title, 2.8
    elif k < start <= k + 14:
        title = view.title()
        if before is not None and not (title and {"he", "she"} & set(view.words(0, k))):
            yield before, 2.6
        elif title:
            yield title, 2.6


def _patients(view: _View, spans: list[Span], k: int, relation: Relation) -> Reading:
    """What X directed: Y was directed by X; X directed Y."""
    start = view.at[0]
    by = _by(view, k)
    before, title = _before(spans, k), view.title()
    if title and start < k and view.words(k + 1, k + 2) == ["there"]:
        yield title, 2.8
        return
    behind = by < start <= by + 8 if by is not None else k < start <= k + 8
    if behind:
        score = 3.0 if by is not None else 2.2
        if before is not None:
            yield before, score
        elif title:
            yield title, score - 0.3
    elif by is None and start < k:
        yield from _ranked(_next(view, spans, k, 10), 2.6)


def _foreign(view: _View, start: int, end: int, relation: Relation) -> bool:
    """Whether another life event stands between a cue and a value."""
    between = {token.stem for token in view.tokens[start + 1 : end]}
    return bool(between & _DIED if relation.cues & _BORN else between & _BORN if relation.cues & _DIED else ())


def _dated_brackets(view: _View) -> tuple[tuple[int, int], list[Span]]:
    """The first brackets with dates in them, and those dates."""
    for pair in view.brackets():
        dates = [s for s in view.sentence.spans if s.kind == "date" and pair[0] < s.first < pair[1]]
        if dates:
            return pair, dates
    return (0, 0), []


def _life(view: _View, relation: Relation, spans: list[Span]) -> Span | None:
    """The part of `(birth – death)` after a name that is asked for, among dates or places."""
    if not relation.cues & (_BORN | _DIED):
        return None
    inside, dates = _dated_brackets(view)
    marks = [i for i in range(*inside) if view.tokens[i].text in "–—-" or view.tokens[i].folded in ("died", "d")]
    # A hyphen inside a name is no dash between two dates.
    marks = [i for i in marks if not any(s.first < i < s.last for s in view.sentence.spans)]
    middle = marks[0] if marks else dates[1].first if len(dates) == 2 else inside[1]
    if not dates or (middle == inside[1] and not {"born", "b"} & set(view.words(*inside))):
        return None
    low, high = (inside[0], middle) if relation.cues & _BORN else (middle - (not marks), inside[1])
    return next((s for s in spans if low < s.first < high), None)


def _read_date(view: _View, relation: Relation) -> Reading:
    """Dates by a verb, in the brackets after a name, or the year of a film."""
    dates = [s for s in view.sentence.spans if s.kind == "date"]
    if (life := _life(view, relation, dates)) is not None:
        yield life, 3.2
    for k in view.cues(relation.verbs | relation.nouns):
        later = next((s for s in dates if k < s.first <= k + 14 and not _foreign(view, k, s.first, relation)), None)
        earlier = next((s for s in reversed(dates) if k - 14 <= s.last - 1 < k), None)
        if later is not None:
            yield later, 3.0 if view.at[0] < k or view.about else 2.2
        elif earlier is not None and not _foreign(view, earlier.last, k, relation):
            yield earlier, 2.5
    if relation.name in ("release date", "date", "founding date") and dates:
        copula = view.copula()
        for span in dates:
            if copula is not None and 0 < span.first - copula <= 4:
                yield span, 2.6 if relation.name == "release date" else 1.6
        yield dates[0], 0.8


def _read_place(view: _View, relation: Relation) -> Reading:
    """The place after a verb and a preposition, in dated brackets, or in `is a town in X`."""
    names = view.names()
    if (life := _life(view, relation, names)) is not None:
        yield _whole_place(view, life, names), 2.8
    for k in view.cues(relation.verbs | relation.nouns):
        if view.words(k + 1, k + 2) == ["there"]:  # moved to Porto and died there
            places = [
                s
                for s in names
                if s.last <= k
                and view.words(s.first - 1, s.first)[:1]
                and view.words(s.first - 1, s.first)[0] in _PLACED
            ]
            if places:
                yield places[-1], 2.8
            elif title := view.title():
                yield title, 2.4
            continue
        noun = view.tokens[k].stem in relation.nouns and view.tokens[k].stem not in relation.verbs
        if view.at[0] > k and not noun and not (view.about and k <= 2):
            continue
        for span in (s for s in names if k < s.first <= k + 18):
            if _foreign(view, k, span.first, relation):
                break
            lead = view.words(max(span.first - 4, k), span.first)
            direct = bool(_PLACED & set(lead[-2:])) or (noun and bool({"of", *COPULAS} & set(lead)))
            if direct:
                yield _whole_place(view, span, names), 3.0
                break
    if relation.name in ("location", "country", "headquarters", "residence"):
        copula = view.copula()
        span = next(
            (
                s
                for s in names
                if copula is not None
                and s.first > copula
                and view.tokens[s.first - 1].folded in _PLACED | {"the", "of"}
            ),
            None,
        )
        if span is not None:
            yield _whole_place(view, span, names), 2.2 if relation.name in ("location", "country") else 1.4


def _whole_place(view: _View, span: Span, names: list[Span]) -> Span:
    """A place with what it lies in: `Montreal, Quebec`."""
    last = span
    for following in names:
        if view.words(last.last, following.first) == [","] and following.last - span.first <= 9:
            last = following
    text = view.sentence.text[view.tokens[span.first].start : view.tokens[last.last - 1].end]
    return Span(text, span.first, last.last, "name")


def _read_nationality(view: _View, relation: Relation) -> Reading:
    """The capitalised adjective in `is a Hungarian director`; for things also the country that they lie in."""
    tokens, copula = view.tokens, view.copula()
    if copula is not None and set(view.words(copula + 1, copula + 4)) & {"a", "an", "the", "one"}:
        ahead = range(copula + 1, min(copula + 8, len(tokens)))
        first = next((i for i in ahead if tokens[i].text[0].isupper() or tokens[i].folded in _PLACED), len(tokens))
        last = first
        while last < len(tokens) and (tokens[last].text[0].isupper() or tokens[last].text == "-"):
            last += 1
        if first < last < len(tokens) and tokens[last].text[0].islower() and tokens[last].folded not in _LINKS:
            adjectives = [token.text for token in tokens[first:last] if token.text != "-"]
            yield Span(adjectives[-1], last - 1, last, "name"), 3.0
    names = view.names()
    origin = [
        s
        for s in names
        if copula is not None and copula < s.first <= copula + 8 and view.words(s.first - 1, s.first) == ["from"]
    ]
    yield from _ranked(origin[:1], 2.6)
    if relation.name == "country":
        place = Relation("location", "place", frozenset(), frozenset({"locat", "situat", "lie", "base"}))
        places = [score for _, score in _read_place(view, place)]
        ends = [s for s in names if view.words(s.first - 1, s.first) in ([","], ["in"], ["of"])]
        if places and ends:
            yield ends[-1], max(places)
    for k in view.cues(relation.nouns):
        yield from _ranked(_next(view, names, k, 4)[:1], 2.2)


def _read_phrase(view: _View, relation: Relation) -> Reading:
    """What someone is (`is a Hungarian film director and screenwriter`) or died of."""
    tokens = view.tokens
    if relation.name == "cause of death":
        for k in view.cues(relation.verbs):
            lead = re.search(
                r"\b(?:of|from|due to|by|after|following) (?:an? |the )?", view.sentence.text[tokens[k].end :]
            )
            if lead:
                phrase = _PHRASE_END.split(view.sentence.text[tokens[k].end + lead.end() :] + " ", maxsplit=1)[
                    0
                ].strip()
                yield Span(phrase, k, k + 1, "name"), 2.6
        return
    copula = view.copula()
    start = (copula or 0) + 2
    if copula is None or start > len(tokens) or tokens[start - 1].folded not in ("a", "an", "the", "one"):
        return
    while start < len(tokens) and (tokens[start].text[0].isupper() or tokens[start].text == "-"):
        start += 1
    if start < len(tokens):
        phrase = _PHRASE_END.split(view.sentence.text[tokens[start].start :] + " ", maxsplit=1)[0].strip()
        yield Span(phrase, start, start + 1, "name"), 2.6


def _read_number(view: _View, relation: Relation) -> Reading:
    """The number beside its noun, or the years between birth and death."""
    numbers = [s for s in view.sentence.spans if s.kind == "number"]
    for span in view.sentence.spans:  # 1251 kilometres is no year
        if (
            span.kind == "date"
            and not span.value[1]
            and relation.cues & {t.stem for t in view.tokens[span.last : span.last + 1]}
        ):
            numbers.append(Span(span.text, span.first, span.last, "number", span.value[:1]))
    for k in view.cues(relation.cues):
        near = sorted((s for s in numbers if abs(s.first - k) <= 8), key=lambda s: (abs(s.first - k), s.first))
        if near:
            unit = view.tokens[near[0].last] if near[0].last < len(view.tokens) else None
            if unit and unit.stem in relation.cues and relation.name in ("length", "height", "area"):
                near[0] = replace(near[0], text=f"{near[0].text} {unit.text}")
            yield near[0], 3.0 if near[0].first <= k <= near[0].first + 4 else 2.2
    if relation.name == "lifespan":
        lives = _dated_brackets(view)[1]
        if len(lives) == 2:
            years = lives[1].value[0] - lives[0].value[0]
            yield Span(f"{years:g}", lives[0].first, lives[1].last, "number", (years,)), 3.0


_READERS: dict[str, Callable[[_View, Relation], Reading]] = {
    "date": _read_date,
    "place": _read_place,
    "nationality": _read_nationality,
    "phrase": _read_phrase,
    "number": _read_number,
}


@lru_cache(maxsize=4096)
def comparable(text: str) -> str:
    """A value in the form in which two of them are compared."""
    text = " ".join(name_key(text)) or text
    return _SAME_COUNTRY.get(text, text)


_SAME_COUNTRY = {
    **dict.fromkeys(("us", "usa", "u s", "united states of america", "american", "u.s"), "united states"),
    **dict.fromkeys(
        ("uk", "u k", "britain", "great britain", "british", "english", "england", "u.k"), "united kingdom"
    ),
}
