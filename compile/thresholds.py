"""Calibrate δ on the scores of the training questions' passages (MIGRES, table 12)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import dspy

from knowgap.compiling.evaluation.runner import check_examples
from knowgap.errors import UsageError, ValueOutOfBounds
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Real
from knowgap.storage.progress import Progress, no_progress


def calibrate_delta(
    program: Program, examples: Sequence[dspy.Example], *, share: float = 0.8, progress: Progress | None = None
) -> float:
    """Find the largest δ that leaves at least `share` of the questions a passage to read (MIGRES, table 12).

    The questions are searched for and their passages reranked; no language model is asked. The result is rounded down
    to four decimals.

    Args:
        program: a program with a retriever, a reranker and a `delta`; it is not changed.
        examples: training questions.
        share: fraction above 0 and at most 1; the paper's is 0.8.
        progress: called after every question.

    Raises:
        UsageError: the program has no δ, retriever or reranker, or too many questions retrieve nothing.
        ValueOutOfBounds: `share` is out of bounds, or δ is outside the program's bounds.
    """
    if not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise ValueOutOfBounds(f"share={share!r} is out of bounds: it takes numbers above 0 and up to 1")
    declared = program.hyperparameters().get("delta")
    reranker = program.parts().get("reranker")
    if not isinstance(declared, Real) or reranker is None or program.retriever is None:
        raise UsageError(f"δ cannot be calibrated for {program.name}: it needs a delta, a retriever and a reranker")
    check_examples(examples)
    questions, best = [example.question for example in examples], list[float]()
    found = program.retriever.search(questions, int(getattr(program, "retrieve_k", 50)))
    for done, (question, hits) in enumerate(zip(questions, found, strict=True), start=1):
        if hits:
            best.append(max(map(float, reranker.score([(question, str(hit.passage)) for hit in hits]))))
        (progress or no_progress)(done, len(questions), "scores of retrieved passages")
    needed = math.ceil(share * len(examples) - 1e-9)  # rounding errors must not turn 0.8 × 5 into 5
    if needed > len(best):
        raise UsageError(
            f"only {len(best)} of {len(examples)} questions find a passage, so no δ leaves one to {share:.0%} of them"
        )
    reached = sorted(best, reverse=True)[needed - 1]
    return cast("float", declared.check(math.floor(reached * 10_000) / 10_000))
