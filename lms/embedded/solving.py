"""Follow a question's chains of relations through the sentences, and answer from where they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from knowgap.lms.embedded.answers import Answer, Step
from knowgap.lms.embedded.english.language import Sentence, Span, analyse, name_key, same_name
from knowgap.lms.embedded.english.phrases import Chain
from knowgap.lms.embedded.english.questions import Question
from knowgap.lms.embedded.english.relations import Relation, relation_of_noun
from knowgap.lms.embedded.guessing import read_openly
from knowgap.lms.embedded.reading import STRICT, Found, find_values

__all__ = ["Walk", "answer", "walk"]

Given = Mapping[tuple[tuple[str, ...], tuple[str, ...]], str]
"""Answers already given, by words of the entity and names of the relations."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A followed chain: its settled steps, then the open one if any, and the value at the end if it was reached."""

    steps: tuple[Step, ...]
    value: str | None
    span: Span | None = None

    @property
    def open_step(self) -> Step | None:
        """The first step that is not settled."""
        return self.steps[-1] if self.steps and self.value is None else None


def walk(chain: Chain, sentences: Sequence[Sentence], given: Given | None = None, least: float = STRICT) -> Walk:
    """Follow a chain; of several values, take the first from which the rest of the chain can be followed."""
    return _walk(chain.entity, chain.relations, sentences, given or {}, least)


def _walk(
    name: str, relations: tuple[Relation, ...], sentences: Sequence[Sentence], given: Given, least: float
) -> Walk:
    if not relations:
        return Walk((), name)
    for length in range(len(relations), 0, -1):
        said = given.get((name_key(name), tuple(r.name for r in relations[:length])))
        if said:
            span = parse_value(said)
            rest = _walk(said, relations[length:], sentences, given, least)
            return rest if rest.steps else Walk((), said, span)
    relation = relations[0]
    candidates = _candidates_of(name, relation, sentences, least)
    if not candidates and ", " in name:  # Aarhus, Denmark: the town itself, or the country that it names
        town, _, rest = name.partition(", ")
        if relation.name == "country":
            return _walk(rest.rpartition(", ")[2], relations[1:], sentences, given, least)
        candidates = _candidates_of(town, relation, sentences, least)
    best: Walk | None = None
    for found in candidates:
        step = Step(name, relation, found)
        rest = _walk(found.value, relations[1:], sentences, given, least)
        path = Walk((step, *rest.steps), rest.value, rest.span if relations[1:] else found.span)
        if path.value is not None:
            return path
        best = best or path
    return best or Walk((Step(name, relation, None),), None)


_OPPOSITE = {"father": "mother", "mother": "father", "brother": "sister", "sister": "brother", "son": "daughter"}
_OPPOSITE["daughter"] = "son"
_MALE = ("father", "brother", "son")


def _candidates_of(name: str, relation: Relation, sentences: Sequence[Sentence], least: float) -> list[Found]:
    """Find at most three values; for kin, leave out those of the other sex by the sentences' nouns and pronouns."""
    found = [f for f in find_values(name, relation, sentences) if f.score >= least]
    if relation.name in _OPPOSITE and found:
        opposite = relation_of_noun(_OPPOSITE[relation.name])
        plain = replace(opposite, inverse=frozenset())
        others = {name_key(f.value) for f in find_values(name, plain, sentences) if f.score >= STRICT}
        wrong = {"she", "her"} if relation.name in _MALE else {"he", "his"}
        right = {"he", "his"} if relation.name in _MALE else {"she", "her"}
        kept = []
        for f in found:
            spoken = [t.folded for s in sentences if same_name(s.title, f.value) == 1 for t in s.tokens]
            clash = sum(word in wrong for word in spoken) > sum(word in right for word in spoken)
            if name_key(f.value) not in others and not clash:
                kept.append(f)
        found = kept
    return found[:3]


def parse_value(text: str) -> Span | None:
    """Find a date or number in a short text."""
    return next((s for s in analyse(text).spans if s.kind in ("date", "number")), None)


def answer(question: Question, sentences: Sequence[Sentence], given: Given | None = None, guess: bool = True) -> Answer:
    """Answer from sentences.

    Without `guess`, the answer's text is empty unless all facts are there; `lacks` has the missing ones. With `guess`
    there is always an answer: the best guess, or `unknown` without any sentence.
    """
    walks = [walk(chain, sentences, given) for chain in question.chains]
    lacks = tuple(w.open_step for w in walks if w.open_step is not None)
    support = _support(walks)
    if walks and not lacks:
        text = _conclude(question, walks)
        if text:
            return Answer(text, 0.9, support)
    if question.form == "open" or question.form == "polar" or (question.form == "pick" and not question.chains):
        return read_openly(question, sentences, guess)
    if not guess:
        return Answer("", 0.0, support, lacks)
    loose = [walk(chain, sentences, given, least=0.5) for chain in question.chains]
    if all(w.value is not None for w in loose) and (text := _conclude(question, loose)):
        return Answer(text, 0.5, _support(loose), lacks)
    if question.form == "pick":
        reached = [o for o, w in zip(question.options, walks, strict=True) if w.value is not None]
        return Answer((reached or list(question.options))[0], 0.2, support, lacks)
    rest = read_openly(question, sentences, True, _frontier(walks))
    return Answer(rest.text, min(rest.certainty, 0.3), support or rest.support, lacks)


def _support(walks: Sequence[Walk]) -> tuple[Sentence, ...]:
    seen: dict[Sentence, None] = {}
    for w in walks:
        for step in w.steps:
            if step.found is not None:
                seen[step.found.sentence] = None
    return tuple(seen)


def _frontier(walks: Sequence[Walk]) -> list[str]:
    return [w.open_step.name for w in walks if w.open_step is not None]


def _conclude(question: Question, walks: Sequence[Walk]) -> str:
    values = [w.value or "" for w in walks]
    if question.form == "value":
        return values[0]
    if question.form == "same":
        return "yes" if _alike(values[0], values[1]) else "no"
    keys = [w.span.value if w.span is not None and w.span.value else None for w in walks]
    if keys[0] is None or keys[1] is None:
        return ""
    smaller = keys[0] <= keys[1]
    if question.form == "order":
        return "yes" if smaller == question.least else "no"
    return question.options[0] if smaller == question.least else question.options[1]


def _alike(one: str, other: str) -> bool:
    a, b = comparable(one), comparable(other)
    if a == b or same_name(a, b):
        return True
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
    return alike >= max(4, min(len(a), len(b)) - 2)  # Hungary, Hungarian


def comparable(text: str) -> str:
    """Normalise a value for comparison with another."""
    text = " ".join(name_key(text)) or text
    return _SAME_COUNTRY.get(text, text)


_SAME_COUNTRY = {
    **dict.fromkeys(("us", "usa", "u s", "united states of america", "american", "u.s"), "united states"),
    **dict.fromkeys(
        ("uk", "u k", "britain", "great britain", "british", "english", "england", "u.k"), "united kingdom"
    ),
}
