"""Find the names that have a relation to a thing: by its noun, its verb, or the noun of the inverse relation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knowgap.lms.embedded.english.language import COPULAS, Span, words
from knowgap.lms.embedded.english.relations import Relation
from knowgap.lms.embedded.english.sentences import TITLE_NOUNS, View

__all__ = ["LINKS", "PLACED", "Reading", "following", "ranked", "read_name"]

Reading = Iterator[tuple[Span, float]]
"""Spans with scores; see `reading.STRICT`."""

PLACED = words("in at near to into on from outside around through within")
LINKS = PLACED | words("of and or by for with as who which that , ; ( ) :") | COPULAS
_POSSESSIVES = words("his her its their 's ’s 'S ’S")
_OTHER_ROLES = words("art assist execut manag music deputi vice casting sport technic")


def following(seen: View, spans: list[Span], k: int, window: int = 6) -> list[Span]:
    """Find the name after position `k`, past a descriptor (`English singer X`), and the names listed with it."""
    ahead = [s for s in spans if s.first > k]
    while len(ahead) > 1 and (ahead[0].last - ahead[0].first == 1 or "-" in ahead[0].text):
        gap = seen.words(ahead[0].last, ahead[1].first)
        if not 1 <= len(gap) <= 4 or (LINKS - {"and"}) & set(gap) or gap[-1] == "and" or gap[0] == "and":
            break
        ahead.pop(0)
    reach = window if len(ahead) == len(spans) else window + 4
    if not ahead or ahead[0].first > k + reach:
        return []
    listed = ahead[:1]
    for span in ahead[1:]:
        gap = seen.words(listed[-1].last, span.first)
        if not gap or not set(gap) <= {",", "and", "&"} or len(listed) == 4:
            break
        listed.append(span)
    return listed


def _before(spans: list[Span], k: int, window: int = 12) -> Span | None:
    return next((s for s in reversed(spans) if k - window <= s.last - 1 < k), None)


def ranked(spans: Sequence[Span], score: float) -> Reading:
    """Score spans, each 0.1 below the one before."""
    for place, span in enumerate(spans):
        yield span, score - 0.1 * place


def read_name(seen: View, relation: Relation) -> Reading:
    """Find names by a noun of the relation, as agents or patients of its verb, and by an inverse noun."""
    spans = seen.names(relation.kind == "person")
    for k in seen.cues(relation.nouns):
        yield from _by_noun(seen, spans, k)
    for k in seen.cues(relation.works):
        if seen.words(k + 1, k + 2) == ["by"] or "by" in seen.words(k + 1, k + 4)[:2]:
            yield from ranked(following(seen, spans, k), 2.6)
    for k in seen.cues(relation.inverse):
        yield from _by_inverse(seen, spans, k, relation)
    if relation.kind in ("thing", "place"):  # the Sorn River is a river
        yield from ((s, 2.1) for s in spans if seen.tokens[s.last - 1].stem in relation.nouns and s.last - s.first > 1)
    for k in seen.cues(relation.verbs):
        if seen.words(k - 1, k) in (["the"], ["a"], ["its"]):  # the recordings are no verb
            continue
        yield from (_patients if relation.patient else _agents)(seen, spans, k, relation)


def _owner(seen: View, k: int) -> int:
    """Where the possessive of the noun at `k` stands (`his second wife`), or -1."""
    return next((i for i in range(k - 1, max(k - 5, -1), -1) if seen.tokens[i].folded in _POSSESSIVES), -1)


def _by_noun(seen: View, spans: list[Span], k: int) -> Reading:
    """`Y is the director of X`, `the director of X is Y`, `X's director, Y`, `its director Y`, `music by Y`."""
    start, end = seen.at
    follow = seen.words(k + 1, k + 5)
    if k and seen.tokens[k - 1].stem in _OTHER_ROLES:
        return
    after, before = following(seen, spans, k), _before(spans, k)
    owner = _owner(seen, k)
    if follow[:1] == ["by"] or (follow[:1] in (["was"], ["is"]) and "by" in follow):
        if start < k or seen.about:
            yield from ranked(after, 2.6)
    elif owner >= 0:
        named = seen.tokens[owner].folded[0] in "'’"
        if end == owner if named else (seen.about or start < owner):
            if after and after[0].first - k <= 6:
                yield from ranked(after, 3.0)
            elif before is not None and before.last <= owner:
                yield before, 2.4
    elif follow[:1] and follow[0] in ("of", "for", "to", "in", "behind", "on"):
        if not (k < start <= k + 8 or (seen.about and TITLE_NOUNS & set(follow))):
            return
        behind = following(seen, spans, max(end - 1, k), 8)
        linked = behind and (COPULAS & set(seen.words(end, behind[0].first)) or behind[0].first - end <= 1)
        if linked and (before is None or k <= 2):
            yield from ranked(behind, 3.0)
        elif before is not None:
            yield before, 3.0
        elif title := seen.title():
            yield title, 2.6
    elif after and after[0].first - k <= 2:
        yield from ranked(after, 2.2 if start < k else 1.8)
    elif before is not None and k - before.last <= 2 and start < k:
        yield before, 1.2


_GENDER = {"his": "mother", "her": "father"}  # what the owner of a pronoun is not


def _by_inverse(seen: View, spans: list[Span], k: int, relation: Relation) -> Reading:
    """X is the son of Y and Z; the son of Y, X …; Y's son X."""
    start, _ = seen.at
    owner = _owner(seen, k)
    if seen.words(k + 1, k + 2) in (["of"], ["to"]):
        after = following(seen, spans, k, 8)
        if after and (start < k or (seen.about and k <= 3)):
            other = any(seen.at[1] <= s.first and s.last >= k - 3 for s in spans if s.last <= k)
            yield from ranked(after, 2.3 if other else 2.7)
    elif owner >= 0 and (title := seen.title()) and start < owner and COPULAS & set(seen.words(start, owner)):
        if _GENDER.get(seen.tokens[owner].folded) != relation.name:  # X was his son: `he` is no mother
            yield title, 2.8
    elif owner < 0 and k < start <= k + 3 and {"had", "has"} & set(seen.words(k - 4, k)):
        before = _before(spans, k, 6) or seen.title()  # Y had a son, X
        if before is not None:
            yield before, 2.6
    elif owner >= 0 and k < start <= k + 6:
        if seen.tokens[owner].folded[0] in "'’":
            before = _before(spans, owner + 1, 4)
            if before is not None:
                yield before, 2.7
        elif title := seen.title():
            yield title, 2.7


def _by(seen: View, k: int) -> int | None:
    """The `by` that makes the verb at `k` passive, with no name in between."""
    names = {i for s in seen.sentence.spans if s.kind == "name" for i in range(s.first, s.last)}
    for i, word in enumerate(seen.words(k + 1, k + 8), start=k + 1):
        if i in names or word in ".;)":
            return None
        if word == "by":
            return i
    return None


def _agents(seen: View, spans: list[Span], k: int, relation: Relation) -> Reading:
    """Y directed X; X, directed by Y."""
    start = seen.at[0]
    by = _by(seen, k)
    after, before = following(seen, spans, k, 8), _before(spans, k, 8)
    if by is not None:
        if start < by:
            yield from ranked(following(seen, spans, by), 3.0)
    elif start < k and seen.words(k + 1, k + 2) in (["to"], ["with"]) and relation.name != "spouse":
        yield from ranked(after, 2.2)  # signed to Y
    elif relation.name == "spouse":
        other = after if start < k else [before] if before is not None else []
        yield from ranked(other, 3.0)
        if start > k and not other and (title := seen.title()):
            yield title, 2.8
    elif k < start <= k + 14:
        title = seen.title()
        if before is not None and not (title and {"he", "she"} & set(seen.words(0, k))):
            yield before, 2.6
        elif title:
            yield title, 2.6


def _patients(seen: View, spans: list[Span], k: int, relation: Relation) -> Reading:
    """What X directed: Y was directed by X; X directed Y."""
    start = seen.at[0]
    by = _by(seen, k)
    before, title = _before(spans, k), seen.title()
    if title and start < k and seen.words(k + 1, k + 2) == ["there"]:
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
        yield from ranked(following(seen, spans, k, 10), 2.6)
