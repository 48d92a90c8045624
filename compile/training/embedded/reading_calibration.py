"""Set what the span head's numbers mean: probabilities, from questions that it was not trained on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from knowgap.compile.evaluation.metrics.f1 import token_f1
from knowgap.compile.evaluation.metrics.normalize import normalize_answer
from knowgap.compile.training.embedded.reading_examples import ReadingExample
from knowgap.lms.embedded.span_head import SpanHead
from knowgap.retrieval.index.files import write_json

__all__ = ["ReadingMeasures", "ReadingSet", "calibrate", "measure_reading", "reading_sets"]

_MOST_PASSAGES = 5


class ReadingSet(NamedTuple):
    """A question with one to five passages, and its answers; none if no passage has one."""

    question: str
    passages: list[tuple[str, str]]
    answers: list[str]


def reading_sets(examples: Sequence[ReadingExample], count: int, seed: int = 0) -> Iterator[ReadingSet]:
    """Questions with passages as a search finds them: half of them with the passage that answers, half without."""
    import bm25s

    rng = random.Random(seed)
    passages = list(dict.fromkeys((e.title, e.text) for e in examples))
    index = bm25s.BM25()
    index.index(bm25s.tokenize([" ".join(p) for p in passages], show_progress=False), show_progress=False)
    answered = [e for e in examples if e.answers]
    for e in rng.sample(answered, min(count, len(answered))):
        query = bm25s.tokenize([f"{e.title} {e.question}"], show_progress=False)
        numbers, _ = index.retrieve(query, k=min(20, len(passages)), show_progress=False)
        answers = list(dict.fromkeys(e.text[slice(*place)] for place in e.answers))
        others = [
            passages[n]
            for n in numbers[0]
            if passages[n][1] != e.text and not any(a.casefold() in passages[n][1].casefold() for a in answers)
        ]
        chosen = others[: rng.randint(1, _MOST_PASSAGES)]
        answerable = rng.random() < 0.5
        if answerable:
            chosen = [(e.title, e.text), *chosen[1:]]
        rng.shuffle(chosen)
        if chosen:
            yield ReadingSet(e.question, chosen, answers if answerable else [])


def calibrate(folder: str | Path, sets: Sequence[ReadingSet]) -> None:
    """Fit the two logistic regressions that turn log-odds into probabilities, and write them into the settings.

    Args:
        folder: of an exported span head.
        sets: at least some with an answer, and some without.
    """
    from sklearn.linear_model import LogisticRegression

    path = Path(folder) / "span_head.json"
    head = SpanHead(folder)
    spans, right, best, unanswered = [], [], [], []
    for item in sets:
        candidates = head.candidates(item.question, item.passages)
        for c in (c for found in candidates for c in found):
            spans.append([c.margin, c.certainty])
            right.append(max((token_f1(c.text, a) for a in item.answers), default=0.0) >= 0.5)
        best.append([max((c.margin for found in candidates for c in found), default=-20.0)])
        unanswered.append(not item.answers)
    settings = json.loads(path.read_text("utf-8"))
    for name, rows, labels in (("span", spans, right), ("none", best, unanswered)):
        if len(set(labels)) == 2:  # else there is nothing to tell apart
            fitted = LogisticRegression().fit(np.array(rows), labels)
            settings[name] = [round(float(v), 4) for v in (*fitted.coef_[0], *fitted.intercept_)]
    write_json(path, settings)


class ReadingMeasures(NamedTuple):
    """How a span head reads questions on the passage that answers each.

    Attributes:
        questions: how many.
        f1: mean token F1 of the best span.
        exact_match: share of questions whose best span is an answer.
    """

    questions: int
    f1: float
    exact_match: float


def measure_reading(head: SpanHead, examples: Sequence[ReadingExample], count: int, seed: int = 0) -> ReadingMeasures:
    """Measure a head on some of the examples that have an answer, each on its passage."""
    answered = [e for e in examples if e.answers]
    chosen = random.Random(seed).sample(answered, min(count, len(answered)))
    f1s, exact = [], []
    for e in chosen:
        best = next((c.text for c in head.candidates(e.question, [(e.title, e.text)])[0]), "")
        scores = [token_f1(best, e.text[slice(*place)]) for place in e.answers]
        f1s.append(max(scores))
        exact.append(any(normalize_answer(best) == normalize_answer(e.text[slice(*place)]) for place in e.answers))
    return ReadingMeasures(len(chosen), float(np.mean(f1s or [0])), float(np.mean(exact or [0])))
