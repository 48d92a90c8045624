"""Calibrate δ on the scores of the training questions' passages (MIGRES, table 12)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.provenance import model_name
from knowgap.compiling.evaluation.runner import check_examples
from knowgap.errors import UsageError, ValueOutOfBounds
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import OptionalReal
from knowgap.storage.progress import Progress

_BATCH = 16


class Calibration(BaseModel, extra="forbid"):
    """The relevance threshold that fits a reranker and a corpus.

    Attributes:
        delta: the largest δ at which at least `share` of the questions have a retrieved passage that scores δ or more,
            rounded down to four decimals.
        share: the fraction that was asked for, above 0 and at most 1.
        scores: best score by question id; None if nothing was retrieved.
        reranker: name of the reranker on whose scale δ is.
    """

    delta: float
    share: float
    scores: dict[str, float | None]
    reranker: str

    def __str__(self) -> str:
        reach = f"{self.covered(self.delta):.0%} of the questions reach it"
        return f"δ = {self.delta:.4f} on the scale of {self.reranker}: {reach}"

    def covered(self, delta: float) -> float:
        """The fraction of the questions that have a passage with a score of at least `delta`."""
        return sum(score is not None and score >= delta for score in self.scores.values()) / len(self.scores)


def calibrate_delta(
    program: Program, examples: Sequence[dspy.Example], *, share: float = 0.8, progress: Progress | None = None
) -> Calibration:
    """Find the largest δ that leaves at least `share` of the questions a passage to read (MIGRES, table 12).

    The questions are searched for and their passages reranked; no language model is asked.

    Args:
        program: a program with a retriever, a reranker and a `delta`; it is not changed.
        examples: training questions.
        share: fraction above 0 and at most 1; the paper's is 0.8.
        progress: called after every few questions.

    Raises:
        UsageError: the program has no δ, retriever or reranker, or too many questions retrieve nothing.
        ValueOutOfBounds: `share` is out of bounds, or δ is outside the program's bounds.
    """
    if not (isinstance(share, (int, float)) and 0 < share <= 1):
        raise ValueOutOfBounds(f"share={share!r} is out of bounds: it takes numbers above 0 and up to 1")
    declared = program.hyperparameters().get("delta")
    reranker = program.parts().get("reranker")
    if not isinstance(declared, OptionalReal) or reranker is None or program.retriever is None:
        raise UsageError(f"δ cannot be calibrated for {program.name}: it needs a delta, a retriever and a reranker")
    ids = check_examples(examples)
    retrieve_k = int(getattr(program, "retrieve_k", 50))
    scores: dict[str, float | None] = {}
    for start in range(0, len(examples), _BATCH):
        questions = [example.question for example in examples[start : start + _BATCH]]
        hit_lists = program.retriever.search(questions, retrieve_k)
        pairs = [
            (question, str(hit.passage)) for question, hits in zip(questions, hit_lists, strict=True) for hit in hits
        ]
        pair_scores = iter(reranker.score(pairs))
        for name, hits in zip(ids[start : start + _BATCH], hit_lists, strict=True):
            scores[name] = max((float(next(pair_scores)) for _ in hits), default=None)
        if progress is not None:
            progress(len(scores), len(examples), "scores of retrieved passages")
    ranked = sorted((score for score in scores.values() if score is not None), reverse=True)
    needed = math.ceil(share * len(scores) - 1e-9)  # rounding errors must not turn 0.8 × 5 into 5
    if needed > len(ranked):
        raise UsageError(
            f"only {len(ranked)} of {len(scores)} questions find a passage, so no δ leaves one to {share:.0%} of them"
        )
    delta = declared.check(math.floor(ranked[needed - 1] * 10_000) / 10_000)
    return Calibration(delta=cast("float", delta), share=share, scores=scores, reranker=model_name(reranker))
