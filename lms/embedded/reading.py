"""Read the answer to one simple question out of sentences: spans that a trained head proposes, ranked by a network."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from knowgap.lms.embedded.span_head import Candidate, SpanHead, span_head
from knowgap.lms.embedded.text import Sentence, analyse, dates, mentions, name_words, stems

_MOST_PASSAGES = 5
_CLOSE = 0.5  # to the most probable answer: this share of its probability


@dataclass(frozen=True, slots=True)
class Found:
    """A possible answer: its text, the sentence that it stands in, and its probability (0 to 1)."""

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
    """Possible answers, as a head (the one that comes with the package) proposes them, each with its sentence.

    Their features follow, [answers + 1, features]; the last row stands for "not in these sentences".
    """
    query = _Query(question, sentences)
    scores = dict(zip(sentences, (query.coverage(s.titled) for s in sentences), strict=True))
    links = _links(query, scores)
    passages: dict[tuple[int, str], list[Sentence]] = {}
    for sentence in sentences:
        passages.setdefault((sentence.source, sentence.title), []).append(sentence)
    best = max(scores.values(), default=0.0)
    chosen = sorted(passages.values(), key=lambda own: -max(scores[s] + links[s] for s in own))[:_MOST_PASSAGES]
    given = [(own[0].title, " ".join(s.text for s in own)) for own in chosen]
    places = [
        (_one_date(c.text.strip(' .,;:"“”'), query), sentence, c, query.coverage(whole))
        for own, candidates in zip(chosen, (head or span_head()).candidates(question, given), strict=True)
        for whole in [frozenset[str]().union(*(s.titled for s in own))]
        for c in candidates
        if (sentence := _sentence_at(own, c)) and name_words(c.text) and not set(stems(c.text)) <= query.weights.keys()
    ]
    counts = Counter(name_words(text) for text, _, _, _ in places)
    top = max((c.margin for _, _, c, _ in places), default=-20.0)
    rows: list[list[float]] = []
    for text, sentence, c, whole in places:
        own = stems(text)
        fresh = sum(stem not in query.weights for stem in own) / max(len(own), 1)
        about = bool(sentence.title) and set(stems(sentence.title)) <= query.weights.keys()
        row = [c.margin / 10, c.certainty / 5, (c.margin - top) / 10, fresh, scores[sentence], whole]
        row += [scores[sentence] - best, links[sentence], float(about), float(c.start < 0)]
        row += [math.log(counts[name_words(text)]), 1 / (1 + sentence.order), len(own) / 5]
        rows.append([*row, 0.0, 0.0, 0.0])
    return [(text, sentence) for text, sentence, _, _ in places], np.array([*rows, [0.0] * 13 + [1.0, best, top / 10]])


def _one_date(text: str, query: _Query) -> str:
    """A span; of the two dates of a life, the one that is asked for."""
    found = [text[start:end] for start, end, _ in dates(text)]
    born, died = query.weights.keys() & {"born", "birth"}, query.weights.keys() & {"die", "death"}
    return found[0 if born else 1] if len(found) == 2 and (born or died) else text


def _whole_name(text: str, sentence: Sentence, asked: set[str]) -> str:
    """A part of a name with the rest of it, where that is what was asked for: New York City, asked for a city."""
    own = set(stems(text))
    names = (name for name in sentence.names if text in name)
    return next((name for name in names if own < set(stems(name)) <= own | asked), text)


def _sentence_at(sentences: Sequence[Sentence], candidate: Candidate) -> Sentence | None:
    """The sentence of a passage in which a span stands; none if it goes over two."""
    ends = list(accumulate(len(sentence.text) + 1 for sentence in sentences))
    at = bisect_right(ends, candidate.start)
    return sentences[at] if candidate.end < ends[at] else None


def _links(query: _Query, scores: dict[Sentence, float]) -> dict[Sentence, float]:
    """What a sentence of another passage that names this passage's title adds to the coverage."""
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
    """The answers to a simple question, the most probable first; their probabilities and that of none sum to 1.

    Those that come close to the most probable and stand in a passage about a name in the question go before it.
    """
    found, matrix = features(question, sentences)
    if not found:
        return []
    ranking = span_head().ranking
    shares = softmax(ranking.logits(matrix) if ranking else matrix[:, 0])
    groups: dict[tuple[str, ...], list[int]] = {}  # the same answer, wherever it stands
    for i in map(int, np.argsort(-shares[:-1], kind="stable")):
        groups.setdefault(name_words(found[i][0]), []).append(i)
    best = [
        Found(_whole_name(*found[places[0]], set(stems(question))), found[places[0]][1], float(shares[places].sum()))
        for places in groups.values()
    ]
    least = _CLOSE * max(one.probability for one in best)
    named = {(s.source, s.title) for s in naming(question, sentences)}
    first = {one for one in best if one.probability >= least and (one.sentence.source, one.sentence.title) in named}
    return sorted(best, key=lambda one: (one not in first, -one.probability))


def naming(question: str, sentences: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """The sentences with a word of the names in a question, in their text or title; all if it names nothing."""
    names = {stem for name in analyse(question).names for stem in stems(name)}
    return tuple(s for s in sentences if not names or names & s.titled)
