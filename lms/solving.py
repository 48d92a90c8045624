"""Following a question's chains through what is known, as far as it goes, and answering from there."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from knowgap.lms.language import STOP_WORDS, Sentence, Span, name_key, same_name, stem, stems
from knowgap.lms.questions import Chain, Question, parse
from knowgap.lms.reading import STRICT, Found, comparable, find_values, matches
from knowgap.lms.relations import Relation, relation_of_noun

__all__ = ["Answer", "Step", "Walk", "answer", "overlap", "rank_sentences", "walk"]

Given = Mapping[tuple[tuple[str, ...], tuple[str, ...]], str]
"""Answers already given: (words of the entity, names of the relations) to the answer."""


@dataclass(frozen=True, slots=True)
class Step:
    """One relation of one thing: settled (`found`), or what is missing."""

    name: str
    relation: Relation
    found: Found | None

    @property
    def missing(self) -> str:
        """The fact in words."""
        return f"the {self.relation.name} of {self.name}"


@dataclass(frozen=True, slots=True)
class Walk:
    """A chain followed: the settled steps, the open one if any, and the value at the end if reached."""

    steps: tuple[Step, ...]
    value: str | None
    span: Span | None = None

    @property
    def open_step(self) -> Step | None:
        """The first step that nothing known settles."""
        return self.steps[-1] if self.steps and self.value is None else None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, how sure it is (0 to 1), the sentences that it rests on, and the facts that it lacks."""

    text: str
    certainty: float
    support: tuple[Sentence, ...] = ()
    lacks: tuple[Step, ...] = ()


def walk(chain: Chain, sentences: Sequence[Sentence], given: Given | None = None, least: float = STRICT) -> Walk:
    """Follow a chain; where two values compete, the one from which the chain goes on is taken."""
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
    """At most three values; for kin not those whom the sentences call the opposite, or refer to as he for she."""
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
    """A date or number in a short text."""
    from knowgap.lms.language import analyse

    return next((s for s in analyse(text).spans if s.kind in ("date", "number")), None)


def answer(question: Question, sentences: Sequence[Sentence], given: Given | None = None, guess: bool = True) -> Answer:
    """Answer from sentences.

    Without `guess` an answer needs every fact; its text is empty otherwise, and `lacks` names what is missing. With
    `guess` there is always an answer: the best of what is there, or `unknown` where there is nothing at all.
    """
    walks = [walk(chain, sentences, given) for chain in question.chains]
    lacks = tuple(w.open_step for w in walks if w.open_step is not None)
    support = _support(walks)
    if walks and not lacks:
        text = _conclude(question, walks)
        if text:
            return Answer(text, 0.9, support)
    if question.form == "open" or question.form == "polar" or (question.form == "pick" and not question.chains):
        return _read_open(question, sentences, guess)
    if not guess:
        return Answer("", 0.0, support, lacks)
    loose = [walk(chain, sentences, given, least=0.5) for chain in question.chains]
    if all(w.value is not None for w in loose) and (text := _conclude(question, loose)):
        return Answer(text, 0.5, _support(loose), lacks)
    if question.form == "pick":
        reached = [o for o, w in zip(question.options, walks, strict=True) if w.value is not None]
        return Answer((reached or list(question.options))[0], 0.2, support, lacks)
    rest = _read_open(question, sentences, True, _frontier(walks))
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
    prefix = len(re.match(r"(.*).*\n\1", a + "\n" + b)[1])  # type: ignore[index]  # the pattern always matches
    return a == b or prefix >= max(4, min(len(a), len(b)) - 2)


# Reading without a chain.


def weights(sentences: Sequence[Sentence]) -> Counter[str]:
    """In how many sentences each stem stands."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence.stems)
    return counts


def overlap(wanted: frozenset[str], sentence: Sentence, counts: Mapping[str, int], total: int) -> float:
    """Which share of the wanted stems, weighted by rarity, a sentence (with its title) holds: 0 to 1."""

    def weight(word: str) -> float:
        return math.log(1 + (total + 1) / (counts.get(word, 0) + 0.5))

    whole = sum(weight(word) for word in wanted)
    here = sentence.stems | frozenset(stems(sentence.title))
    return sum(weight(word) for word in wanted & here) / whole if whole else 0.0


def rank_sentences(text: str, sentences: Sequence[Sentence]) -> list[tuple[float, Sentence]]:
    """Sentences by their overlap with a text, best first."""
    wanted, counts = frozenset(stems(text)), weights(sentences)
    scored = [(overlap(wanted, sentence, counts, len(sentences)), sentence) for sentence in sentences]
    return sorted(scored, key=lambda pair: (-pair[0], pair[1].source, pair[1].order))


def _read_open(question: Question, sentences: Sequence[Sentence], guess: bool, extra: Sequence[str] = ()) -> Answer:
    ranked = rank_sentences(" ".join([question.text, *extra]), sentences)
    if question.form in ("polar", "same", "order"):
        return _polar(question, ranked, guess)
    if question.options and not question.chains:
        return _choose(question, ranked)
    wanted = frozenset(stems(question.text))
    covered = {word for _, s in ranked[:8] for word in (s.stems | frozenset(stems(s.title))) & wanted}
    coverage = len(covered) / len(wanted) if wanted else 0.0
    named = wanted | frozenset(stems(" ".join(extra)))
    candidates: dict[tuple[str, ...], tuple[float, str, Sentence]] = {}
    for score, sentence in ranked[:12]:
        for span, bonus in _candidates(question, sentence):
            key = name_key(span)
            fresh = [w for w in key if stem(w) not in named and w not in STOP_WORDS]
            if not fresh:
                continue
            value = score + bonus + _nearness(sentence, span, wanted)
            before = candidates.get(key)
            if before is None or value > before[0]:
                candidates[key] = (value, span, sentence)
    if candidates:
        value, span, sentence = max(candidates.values(), key=lambda c: (c[0], -c[2].source, -c[2].order))
        sure = min(0.85, coverage * min(1.0, value))
        if guess or coverage >= 0.6:
            return Answer(span, sure, (sentence,))
    if not guess:
        return Answer("", 0.0)
    if question.options:
        return Answer(question.options[0], 0.2)
    if ranked and ranked[0][0] > 0:
        return Answer(ranked[0][1].title or "unknown", 0.1, (ranked[0][1],))
    return Answer("unknown", 0.0)


def _candidates(question: Question, sentence: Sentence) -> list[tuple[str, float]]:
    kind = question.kind
    if kind == "date":
        return [(s.text, 0.3) for s in sentence.spans if s.kind == "date"]
    if kind == "number":
        return [(s.text, 0.3) for s in sentence.spans if s.kind == "number"]
    found = []
    for span in (s for s in sentence.spans if s.kind == "name"):
        before = sentence.tokens[span.first - 1].folded if span.first else ""
        after = sentence.tokens[span.last].text if span.last < len(sentence.tokens) else "."
        adjective = span.last - span.first == 1 and after[0].islower() and after not in STOP_WORDS
        fitting = (kind == "place" and before in ("in", "at", "from", "near")) or (
            kind == "person" and 2 <= span.last - span.first <= 4
        )
        found.append((span.text, 0.15 * fitting - 0.2 * adjective))
    found += [(m.group(1), 0.1) for m in re.finditer(r"[\"“]([^\"”]{2,60})[\"”]", sentence.text) if kind == "thing"]
    if sentence.title:
        found.append((re.sub(r"\s*\([^()]*\)$", "", sentence.title), 0.15))
    return found


def _nearness(sentence: Sentence, text: str, wanted: frozenset[str]) -> float:
    """A bonus up to 0.3 for standing close to words of the question."""
    at = next((s for s in sentence.spans if s.text == text), None)
    if at is None:
        return 0.0
    near = {t.stem for t in sentence.tokens[max(at.first - 6, 0) : at.first]} | {
        t.stem for t in sentence.tokens[at.last : at.last + 6]
    }
    return 0.1 * min(3, len(near & wanted))


def _polar(question: Question, ranked: Sequence[tuple[float, Sentence]], guess: bool) -> Answer:
    wanted = frozenset(stems(question.text))
    best = ranked[0] if ranked else None
    if best is None:
        return Answer("no", 0.1) if guess else Answer("", 0.0)
    if question.options:  # are A and B both so?
        wanted -= frozenset(stems(" ".join(question.options)))
        about = [[s for _, s in ranked if matches(s, option)] for option in question.options]
        shares = [len({w for s in side for w in s.stems & wanted}) / max(1, len(wanted)) for side in about]
        if all(about) or guess:
            support = tuple(side[0] for side in about if side)
            return Answer("yes" if min(shares) >= 0.5 else "no", 0.5, support)
    together = {w for _, s in ranked[:4] for w in (s.stems | frozenset(stems(s.title))) & wanted}
    share = len(together) / max(1, len(wanted))
    negated = {"not", "never", "no"} & {t.folded for t in best[1].tokens}
    support = tuple(s for _, s in ranked[:2])
    if share >= 0.85:
        return Answer("no" if negated else "yes", 0.6, support)
    return Answer("no", 0.3, support) if guess or share >= 0.6 else Answer("", 0.0, support)


def _choose(question: Question, ranked: Sequence[tuple[float, Sentence]]) -> Answer:
    best = ("", -1.0, None)
    wanted = frozenset(stems(question.text)) - frozenset(s for o in question.options for s in stems(o))
    for option in question.options:
        about = [s for _, s in ranked if matches(s, option)]
        share = len({w for s in about for w in s.stems & wanted}) / max(1, len(wanted))
        if share > best[1]:
            best = (option, share, about[0] if about else None)
    return Answer(best[0], 0.4 if best[1] > 0 else 0.1, (best[2],) if best[2] is not None else ())


def parsed(text: str) -> Question:
    """The parsed question."""
    return parse(text)
