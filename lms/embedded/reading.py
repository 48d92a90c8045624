"""Answer a question from sentences: spans that a trained head proposes, ranked by a network, and followed in steps."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise, zip_longest

import numpy as np
import numpy.typing as npt

from knowgap.lms.embedded.questions import Plan, fill, names_of, plan
from knowgap.lms.embedded.span_head import Candidate, SpanHead, span_head
from knowgap.lms.embedded.text import Sentence, akin, analyse, dates, fold, mentions, name_words, stems, value_of
from knowgap.retrieval.logistic import softmax
from knowgap.retrieval.words import words

_MOST_PASSAGES = 6


@dataclass(frozen=True, slots=True)
class Found:
    """A possible answer: its text, the sentence that contains it, and its probability (0 to 1)."""

    text: str
    sentence: Sentence
    probability: float


class _Query:
    """A question's stems, weighted by their rarity among the sentences."""

    def __init__(self, question: str, sentences: Sequence[Sentence]) -> None:
        counts = Counter(stem for sentence in sentences for stem in sentence.content)
        self.weights = {
            stem: math.log(1 + (len(sentences) + 1) / (counts[stem] + 0.5)) for stem in sorted(set(stems(question)))
        }

    def coverage(self, present: frozenset[str]) -> float:
        """The weight of the question's stems that are present, as a fraction of the weight of all."""
        covered = sum(weight for stem, weight in self.weights.items() if stem in present)
        return covered / (sum(self.weights.values()) or 1.0)


def coverages(question: str, sentences: Sequence[Sentence]) -> list[float]:
    """How much of the question each sentence with its title covers, 0 to 1, by rarity of words."""
    query = _Query(question, sentences)
    return [query.coverage(sentence.titled) for sentence in sentences]


def features(
    question: str, sentences: Sequence[Sentence], head: SpanHead | None = None
) -> tuple[list[tuple[str, Sentence]], npt.NDArray[np.float64]]:
    """Possible answers as a span head proposes them (None for the bundled one), and features by which to rank them.

    Returns:
        The answers, each with its sentence; and their features, [answers + 1, features], whose last row stands for "not
        in these sentences".
    """
    query = _Query(question, sentences)
    scores = {sentence: query.coverage(sentence.titled) for sentence in sentences}
    links = _links(query, scores)
    passages: dict[tuple[int, str], list[Sentence]] = {}
    for sentence in sentences:
        passages.setdefault((sentence.source, sentence.title), []).append(sentence)
    chosen = sorted(passages.values(), key=lambda own: -max(scores[s] + links[s] for s in own))[:_MOST_PASSAGES]
    given = [(own[0].title, " ".join(s.text for s in own)) for own in chosen]
    places = [
        (text, sentence, candidate)
        for own, candidates in zip(chosen, (head or span_head()).candidates(question, given), strict=True)
        for candidate in candidates
        for text, sentence in [_placed(own, candidate, "year" not in question)]
        if not set(stems(text)) <= query.weights.keys()
    ]
    counts = Counter(name_words(text) for text, _, _ in places)
    top = max((c.margin for _, _, c in places), default=-20.0)
    rows: list[list[float]] = []
    for text, sentence, c in places:
        row = [c.margin / 10, c.certainty / 5, (c.margin - top) / 10, links[sentence], float(c.start < 0)]
        row += [math.log(counts[name_words(text)]), 1 / (1 + sentence.order), len(stems(text)) / 5]
        rows.append([*row, 0.0, 0.0, 0.0])
    none = [*[0.0] * 8, 1.0, max(scores.values(), default=0.0), top / 10]
    return [(text, sentence) for text, sentence, _ in places], np.array([*rows, none])


def _placed(sentences: Sequence[Sentence], candidate: Candidate, whole_dates: bool) -> tuple[str, Sentence]:
    """A span with the rest of a word, name or date that it cuts, and the sentence where it begins."""
    ends = list(accumulate(len(sentence.text) + 1 for sentence in sentences))
    sentence = sentences[min(bisect_right(ends, candidate.start), len(sentences) - 1)]
    told = sentence.text if candidate.start >= 0 else ""
    cut = re.search(rf"[\w'’-]*{re.escape(candidate.text)}[\w'’-]*", told)
    text = (cut[0] if cut else candidate.text).strip(' .,;:"“”')
    larger = [told[start:end] for start, end, _ in dates(told)] if whole_dates else []
    return next((one for one in (*sentence.names, *larger) if f" {text} " in f" {one} "), text), sentence


def _links(query: _Query, scores: dict[Sentence, float]) -> dict[Sentence, float]:
    """What a sentence of another passage that mentions the title of a sentence adds to the coverage of the latter."""
    naming = {
        title: [other for other in scores if other.title != title and mentions(other.words, title)]
        for title in {sentence.title for sentence in scores if sentence.title}
        if not set(stems(title)) <= query.weights.keys()
    }
    return {
        s: max((query.coverage(s.titled | other.titled) - score for other in naming.get(s.title, ())), default=0.0)
        for s, score in scores.items()
    }


@lru_cache(maxsize=4_000)
def read(question: str, sentences: tuple[Sentence, ...]) -> list[Found]:
    """The answers to a simple question, the most probable first; their probabilities and that of no answer sum to 1."""
    found, matrix = features(question, sentences)
    if not found:
        return []
    ranking = span_head().ranking
    shares = softmax(ranking.logits(matrix) if ranking else matrix[:, 0]).round(6)  # equal spans tie, by position
    groups: dict[tuple[str, ...], list[int]] = {}  # the places of the same answer
    for i in map(int, np.argsort(-shares[:-1], kind="stable")):
        groups.setdefault(name_words(found[i][0]), []).append(i)
    best = [Found(*found[places[0]], float(shares[places].sum())) for places in groups.values()]
    return sorted(best, key=lambda one: -one.probability)


def naming(question: str, sentences: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """The sentences of the passages that speak of a name in a question; all if it names nothing."""
    names = names_of(question, titles_in(question, sentences))
    spoken = {(s.source, s.title): set[str]() for s in sentences}
    for s in sentences:
        spoken[s.source, s.title].update(
            name for name in names if mentions(s.words, name) or set(stems(name)) <= set(stems(s.title))
        )
    if len(names) == 1 and not any(spoken.values()):  # Italian, of Italy
        for s in sentences:
            spoken[s.source, s.title].update(name for name in names if any(akin(fold(name), word) for word in s.words))
    return tuple(s for s in sentences if not names or spoken[s.source, s.title])


_SETTLED = 0.2  # the confidence from which a question counts as settled
_LEAST = 0.1  # the confidence from which the answers to simple questions are preferred to a direct answer
_BRANCHES = 3
_STEPS = 3  # from what a question names to the passage of its answer
_MALE = frozenset(words("father husband son brother grandfather uncle he his him"))
_FEMALE = frozenset(words("mother wife daughter sister grandmother aunt she her hers"))
_GUESSED = 0.3  # what is left of the probability of an answer from sentences about something else


@dataclass(frozen=True, slots=True)
class Fact:
    """A simple question, in which earlier answers are filled in, and its answer; None if there is none."""

    asked: str
    found: Found | None = None

    @property
    def settled(self) -> bool:
        """Whether a sentence states it."""
        return self.found is not None and self.found.probability >= _SETTLED


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer (may be empty), its confidence (0 to 1), the sentences behind it, and the facts that it needs."""

    text: str
    confidence: float
    support: tuple[Sentence, ...] = ()
    facts: tuple[Fact, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether the sentences suffice."""
        return bool(self.text) and self.confidence >= _SETTLED

    @property
    def open(self) -> tuple[str, ...]:
        """The simple questions that are not settled."""
        return tuple(fact.asked for fact in self.facts if not fact.settled)

    @property
    def closed(self) -> tuple[str, ...]:
        """The simple questions that are settled."""
        return tuple(fact.asked for fact in self.facts if fact.settled)


def answer(question: str, sentences: Sequence[Sentence]) -> Answer:
    """Answer a question from sentences."""
    planned = plan(question, titles_in(question, sentences))
    if planned.form == "value":
        return _value(question, planned, sentences)
    return (_compare if planned.form in ("order", "same") else _judge)(planned, sentences)


def _ask(step: str, sentences: Sequence[Sentence], question: str = "") -> list[Found]:
    """The best answers to a simple question, from passages about what it names; none is part of the whole question.

    A sentence whose title is the question itself is the answer. What is told of something else settles nothing, and
    without a passage about a name, none does.
    """
    key = name_words(step)
    if said := next((s for s in sentences if key and name_words(s.title) == key), None):
        return [Found(said.text, said, 0.9)]
    text = fold(" ".join(f"{s.title} {s.text}" for s in sentences))
    is_known = all(code in text for code in re.findall(r"[\w-]*\d[\w-]+", fold(step)))  # codes, numbers and years
    about = naming(step, sentences) if is_known else ()
    found, known = read(step, tuple(about or sentences)), set(stems(question))
    sex = _sex(fold(step).split())
    told: dict[tuple[str, ...], list[str]] = {}
    for s in sentences if sex else ():
        told.setdefault(name_words(s.title), []).extend(s.words)
    kept = [
        one
        for one in found
        if not set(stems(one.text)) <= known and (not sex or sex != -_sex(told.get(name_words(one.text), ())))
    ]
    rest = 1 - sum(one.probability for one in found) + sum(one.probability for one in kept)
    aside = _of_something_else(step, sentences)
    shares = [(1.0 if about and one.sentence not in aside else _GUESSED) / max(rest, 1e-6) for one in kept]
    fair = [replace(one, probability=one.probability * share) for one, share in zip(kept, shares, strict=True)]
    return sorted(fair, key=lambda one: -one.probability)[:_BRANCHES]


def _of_something_else(question: str, sentences: Sequence[Sentence]) -> frozenset[Sentence]:
    """Sentences of passages that open with their title, if neither title nor sentence has a name in the question."""
    names = names_of(question, titles_in(question, sentences))
    opened = {(s.source, s.title) for s in sentences if s.title and s.text.startswith(s.title)}
    return frozenset(
        s
        for s in sentences
        if names and (s.source, s.title) in opened
        if not any(mentions(s.words, name) or set(stems(name)) <= set(stems(s.title)) for name in names)
    )


def _sex(words: Iterable[str]) -> int:
    """1 if more of the words stand for men, -1 if more stand for women, else 0."""
    return int(np.sign(sum((word in _MALE) - (word in _FEMALE) for word in words)))


def titles_in(question: str, sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """The titles, without a bracketed addition, that a question contains, and names joined as a sentence joins them."""
    low = fold(question)
    titles = {re.sub(r"\s*\([^()]*\)$", "", s.title) for s in sentences if s.title}
    spans = [(at, at + len(name)) for name in analyse(question).names if (at := question.find(name)) >= 0]
    joined = {question[one[0] : other[1]] for one, other in pairwise(spans) if one[1] < other[0] <= one[1] + 9}
    titles |= {name for name in joined if " " in name and any(name in s.text for s in sentences)}
    return tuple(sorted(title for title in titles if len(title) > 2 and fold(title) in low))


def _follow(planned: Plan, filled: dict[int, str], sentences: Sequence[Sentence]) -> list[Found]:
    """The most probable combination of answers to the remaining steps of a chain; shorter if a step has none."""
    n = len(filled)
    if n == len(planned.steps):
        return []
    paths = [
        [found, *_follow(planned, {**filled, n + 1: found.text}, sentences)]
        for found in _ask(fill(planned.steps[n], filled), sentences, planned.rest)
    ]
    return max(paths, key=lambda path: (len(path), math.prod(found.probability for found in path)), default=[])


def _value(question: str, planned: Plan, sentences: Sequence[Sentence]) -> Answer:
    """Follow the steps; where that settles nothing, read the whole question at once."""
    path = _follow(planned, {}, sentences)
    whole = len(path) == len(planned.steps)
    sure = min((found.probability for found in path), default=0.0) if whole else 0.0
    facts: list[Fact] = []
    for n, step in enumerate(planned.steps):
        asked = fill(step, {i: f.text for i, f in enumerate(path[:n], 1)})
        facts.append(Fact(asked, path[n] if n < len(path) else None))
        if not facts[-1].settled:
            break
    if sure < _SETTLED:
        between = {name_words(found.text) for found in path[: len(planned.steps) - 1]}
        for direct in [one for one in read(question, tuple(sentences)) if name_words(one.text) not in between][:1]:
            trail = _trail(question, sentences, direct)
            leads = bool(trail) or len(planned.steps) == 1  # where there are several, the last is in another passage
            if trail is not None and leads and direct.probability >= _SETTLED:
                read_on = pairwise([*trail, direct.sentence])
                steps = [Fact(f"{one.title}, which names", Found(other.title, one, 1.0)) for one, other in read_on]
                told = (*steps, Fact(question, direct))
                return Answer(direct.text, direct.probability, (*trail, direct.sentence), told)
            if sure < min(_LEAST, direct.probability):
                return Answer(direct.text, 0.0, (direct.sentence,), tuple(facts))
    support = tuple(dict.fromkeys(found.sentence for found in path))
    return Answer(path[-1].text if path else "", sure, support, tuple(facts))


def _trail(question: str, sentences: Sequence[Sentence], found: Found) -> tuple[Sentence, ...] | None:
    """Sentences that lead from what a question names to the passage of an answer: each names the title of the next.

    Empty if the passage itself speaks of what is named; None if nothing leads to it.
    """
    trails: dict[tuple[int, str], tuple[Sentence, ...]] = {(s.source, s.title): () for s in naming(question, sentences)}
    titles = dict.fromkeys((s.source, s.title) for s in sentences if s.title)
    for _ in range(_STEPS):
        for here in titles:
            namer = (s for s in sentences if (s.source, s.title) in trails and mentions(s.words, here[1]))
            if here not in trails and (by := next(namer, None)):
                trails[here] = (*trails[by.source, by.title], by)
    return trails.get((found.sentence.source, found.sentence.title))


def _compare(planned: Plan, sentences: Sequence[Sentence]) -> Answer:
    """Answer the questions on each option, and compare the two last answers."""
    found: dict[int, Found] = {}
    facts: list[Fact] = []
    last = len(planned.steps)
    for n, step in enumerate(planned.steps, start=1):
        asked = fill(step, {i: f.text for i, f in found.items()})
        if "#" in asked:
            continue
        candidates = _ask(asked, sentences)
        if n > last - 2 and planned.form == "order":
            candidates = [f for f in candidates if value_of(f.text)]
        if candidates:
            found[n] = candidates[0]
        facts.append(Fact(asked, found.get(n)))
    support = tuple(dict.fromkeys(f.sentence for f in found.values()))
    one, other = found.get(last - 1), found.get(last)
    if one is None or other is None:
        text = "no" if planned.polar else planned.options[1 if one is None and other else 0]
        return Answer(text, 0.0, support, tuple(facts))
    ordered = planned.form == "order"
    first = value_of(one.text) <= value_of(other.text) if ordered else _alike(one.text, other.text)
    texts = ("yes", "no") if planned.polar else planned.options
    sure = min(f.probability for f in found.values()) if len(found) == last else 0.0
    return Answer(texts[0 if first == planned.least else 1], sure, support, tuple(facts))


def _alike(one: str, other: str) -> bool:
    """Whether two texts have the same words, but for the end of a name: Italian, Italy."""
    pairs = zip_longest(name_words(one), name_words(other), fillvalue="")
    return all(akin(a, b) for a, b in pairs)


def _judge(planned: Plan, sentences: Sequence[Sentence]) -> Answer:
    """Yes, no or an option, by how much of the statement the sentences about each option cover."""
    wanted = set(stems(planned.rest)) - {stem for option in planned.options for stem in stems(option)}
    shares: list[float] = []
    support: list[Sentence] = []
    facts: list[Fact] = []
    for thing in planned.options or ("",):
        about = [s for s in sentences if not thing or mentions((*s.words, *name_words(s.title)), thing)]
        best = sorted(about, key=lambda s: -len(s.content & wanted))[:1]
        covered = {stem for s in best for stem in s.content & wanted}
        shares.append(len(covered) / max(len(wanted), 1))
        support += best
        facts.append(Fact(f"{thing} {planned.rest}".strip(), Found("yes", best[0], 1.0) if covered else None))
    if planned.form == "fit":
        text, sure = planned.options[shares.index(max(shares))], 0.5 * max(shares)
    else:
        text, sure = "yes" if min(shares) >= 0.5 else "no", max(min(shares), _SETTLED)
    return Answer(text, sure if all(fact.settled for fact in facts) else 0.0, tuple(support), tuple(facts))


def uncovered(question: str, sentences: Sequence[Sentence]) -> str:
    """The content words of a question that no sentence has, as the question writes them."""
    present = frozenset[str]().union(*(s.titled for s in sentences))
    words = re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", question)
    return " ".join(word for word in words if (own := stems(word)) and not set(own) & present)


def bridge(question: str, sentences: Sequence[Sentence], found: Answer) -> list[str]:
    """The next queries: open questions, or settled ones again; then names in the best sentences with what they lack."""
    proposals = list(found.open or reversed(found.closed))
    scores = dict(zip(sentences, coverages(question, sentences), strict=True))
    ranked = [s for s in sorted(scores, key=lambda sentence: -scores[sentence])[:4] if scores[s] > 0.1]
    for sentence in (*found.support, *ranked):
        rest = uncovered(question, [sentence])
        for name in (*sentence.names, sentence.title):
            if name and not set(stems(name)) <= set(stems(question)):
                proposals.append(f"{name} {rest}".strip())
    return list(dict.fromkeys(proposals))
