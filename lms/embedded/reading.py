"""Answer a question from sentences: spans that a trained head proposes, ranked by a network, and followed in steps."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from knowgap.lms.embedded.asked import PRONOUNS, asked, gender_of
from knowgap.lms.embedded.questions import PLACED, Plan, fill, names_of, plan
from knowgap.lms.embedded.span_head import Candidate, SpanHead, span_head
from knowgap.lms.embedded.text import Sentence, fold, mentions, name_words, stems, value_of
from knowgap.retrieval.logistic import softmax

_MOST_PASSAGES = 5
_SILENT = 0.35  # what is left of the probability of an answer from a sentence without a word on what is asked


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
    query, wanted = _Query(question, sentences), asked(question)
    scores = dict(zip(sentences, (query.coverage(s.titled) for s in sentences), strict=True))
    links = _links(query, scores)
    passages: dict[tuple[int, str], list[Sentence]] = {}
    for sentence in sentences:
        passages.setdefault((sentence.source, sentence.title), []).append(sentence)
    best = max(scores.values(), default=0.0)
    chosen = sorted(passages.values(), key=lambda own: -max(scores[s] + links[s] for s in own))[:_MOST_PASSAGES]
    given = [(own[0].title, " ".join(s.text for s in own)) for own in chosen]
    places = [
        (text, sentence, c, own)
        for own, candidates in zip(chosen, (head or span_head()).candidates(question, given), strict=True)
        for c in candidates
        if (sentence := _sentence_at(own, c)) and (text := wanted.trimmed(c.text, sentence, set(query.weights)))
        if wanted.fits(text) or not sentence.names
    ]
    counts = Counter(name_words(text) for text, _, _, _ in places)
    top = max((c.margin for _, _, c, _ in places), default=-20.0)
    rows: list[list[float]] = []
    for text, sentence, c, own in places:
        whole, fresh = frozenset[str]().union(*(s.titled for s in own)), stems(text)
        share = sum(stem not in query.weights for stem in fresh) / max(len(fresh), 1)
        about = bool(sentence.title) and set(stems(sentence.title)) <= query.weights.keys()
        row = [c.margin / 10, c.certainty / 5, (c.margin - top) / 10, share, scores[sentence], query.coverage(whole)]
        row += [scores[sentence] - best, links[sentence], float(about), float(c.start < 0)]
        row += [math.log(counts[name_words(text)]), 1 / (1 + sentence.order), len(fresh) / 5]
        row += [wanted.fits(text), wanted.said(sentence), wanted.named(sentence.titled), wanted.named(whole)]
        rows.append([*row, 0.0, 0.0, 0.0])
    none = [*[0.0] * (len(rows[0]) - 3 if rows else 0), 1.0, best, top / 10]
    return [(text, sentence) for text, sentence, _, _ in places], np.array([*rows, none])


def _sentence_at(sentences: Sequence[Sentence], candidate: Candidate) -> Sentence | None:
    """The sentence of a passage that contains a span; None if the span extends over two."""
    ends = list(accumulate(len(sentence.text) + 1 for sentence in sentences))
    at = bisect_right(ends, candidate.start)
    return sentences[at] if candidate.end < ends[at] else None


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
    wanted = asked(question)
    spoken = np.array([1.0 if wanted.said(sentence) else _SILENT for _, sentence in found])
    best = [Found(*found[places[0]], float((shares[:-1] * spoken)[places].sum())) for places in groups.values()]
    return sorted(best, key=lambda one: -one.probability)


def naming(question: str, sentences: Sequence[Sentence], titles: tuple[str, ...] = ()) -> tuple[Sentence, ...]:
    """The sentences about a name in a question; all if it names nothing.

    In a passage that opens with its title, sentences are about that title, or about a name in them; in another one,
    about every name in the passage.
    """
    names = names_of(question, titles)
    opened = {(s.source, s.title) for s in sentences if s.title and s.text.startswith(s.title)}
    about = {
        s
        for s in sentences
        if any(mentions(s.words, name) or set(stems(name)) <= set(stems(s.title)) for name in names)
    }
    if not about and len(names) == 1 and len(key := fold(names[0])) > 6:  # Padotonian, of Padotonia
        about = {s for s in sentences if any(word[: len(key) - 2] == key[:-2] for word in s.words)}
    named = {(s.source, s.title) for s in about} - opened
    return tuple(s for s in sentences if not names or s in about or (s.source, s.title) in named)


_SETTLED = 0.3  # the confidence from which a question counts as settled
_LEAST = 0.1  # the confidence from which the answers to simple questions are preferred to a direct answer
_BRANCHES = 3
_STATED = 0.5  # the exponent of the probability of an answer whose sentence says all that is asked
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
    """The best answers to a simple question, from sentences about what it names; none is part of the whole question.

    A sentence whose title is the question itself is the answer. Without a sentence about a name, the nearest passages
    are read, but settle nothing.
    """
    key = name_words(step)
    if said := next((s for s in sentences if key and name_words(s.title) == key), None):
        return [Found(said.text, said, 0.9)]
    if dated := re.match(r"(.+) in (\d{3,4})\W*$", step):  # the year may stand in the passage on the answer
        found = _ask(f"{dated[1]}?", sentences, question)
        dates_of = {name_words(s.title) for s in sentences if dated[2] in s.words}
        here = [one for one in found if dated[2] in one.sentence.words or name_words(one.text) in dates_of]
        return here or [replace(one, probability=_GUESSED * one.probability) for one in found]
    known, wanted = set(stems(question)), asked(step)
    asks = re.match(
        rf"(?:{PLACED} )?(?:who|what|which|when|where|how|why)", step, re.I
    )  # else it tells more than it asks
    about = set(naming(step, sentences, titles_in(step, sentences)) if asks else sentences)
    told: dict[tuple[str, ...], list[str]] = {}
    for s in sentences if wanted.gender else ():
        told.setdefault(name_words(s.title), []).extend(word for word in s.words if word in PRONOUNS)
    text = fold(" ".join(f"{s.title} {s.text}" for s in sentences))
    if not all(code in text for code in re.findall(r"[\w-]*\d[\w-]+", fold(step))):
        about = set()  # another code, number or year
    alone = about and asks and len(wanted.names) == 1
    found = read(step, tuple(s for s in sentences if s in about) if alone else tuple(sentences))
    kept = [
        one
        for one in found
        if not set(stems(one.text)) <= known
        and not wanted.is_other_way(one.text, one.sentence, gender_of(told.get(name_words(one.text), ())))
    ]
    rest = 1 - sum(one.probability for one in found) + sum(one.probability for one in kept)
    shared = [
        replace(one, probability=_GUESSED * one.probability / rest)
        if one.sentence not in about
        else replace(
            one,
            probability=(one.probability / rest) ** (_STATED if asks and wanted.states(one.text, one.sentence) else 1),
        )
        for one in kept
    ]
    return sorted(shared, key=lambda one: -one.probability)[:_BRANCHES]


def titles_in(question: str, sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """The titles, without a bracketed addition, that a question contains."""
    low = fold(question)
    titles = {re.sub(r"\s*\([^()]*\)$", "", s.title) for s in sentences if s.title}
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
    path = _follow(planned, {}, sentences)
    direct = read(question, tuple(sentences))[:1] if len(planned.steps) > 1 or not path else path
    sure = min(found.probability for found in path) if path and len(path) == len(planned.steps) else 0.0
    chosen = path if sure >= _LEAST or not direct or sure > direct[0].probability else direct
    facts: list[Fact] = []
    for n, step in enumerate(planned.steps):
        facts.append(
            Fact(fill(step, {i: f.text for i, f in enumerate(path[:n], 1)}), path[n] if n < len(path) else None)
        )
        if not facts[-1].settled:
            break
    support = tuple(dict.fromkeys(found.sentence for found in chosen))
    return Answer(chosen[-1].text if chosen else "", sure, support, tuple(facts))


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
    first = value_of(one.text) <= value_of(other.text) if ordered else name_words(one.text) == name_words(other.text)
    texts = ("yes", "no") if planned.polar else planned.options
    sure = min(f.probability for f in found.values()) if len(found) == last else 0.0
    return Answer(texts[0 if first == planned.least else 1], sure, support, tuple(facts))


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
