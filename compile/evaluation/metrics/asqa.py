"""String exact match and hit rate of long answers to ambiguous questions (ASQA, as ALCE measures them)."""

from __future__ import annotations

from typing import Any

from knowgap.compile.evaluation.metrics.citation import strip_citations
from knowgap.compile.evaluation.metrics.normalize import normalize_answer, predicted_answer
from knowgap.errors import DataError

__all__ = ["str_em", "str_hit"]


def str_em(example: Any, prediction: Any, trace: Any = None) -> float:
    """Share of the question's readings for which some short answer stands in the prediction.

    Source: Stelmakh et al. (2022), section 5; normalised as SQuAD's answers, and with ALCE's preparation (Gao et al.,
    2023): only the prediction's first paragraph counts, without its citations.

    Args:
        example: has `short_answers: list[list[str]]`, one list for each reading.
        prediction: has `answer: str`; without an answer it scores 0.
        trace: unused; DSPy passes one while it bootstraps.

    Raises:
        DataError: the example has no short answers.
    """
    readings = getattr(example, "short_answers", None)
    if not readings:
        raise DataError(f"question {example.question!r} has no short answers to look for", field="short_answers")
    answer = predicted_answer(prediction)
    if answer is None:
        return 0.0
    text = normalize_answer(strip_citations(answer.strip().split("\n")[0]))
    found = [any(normalize_answer(short) in text for short in shorts) for shorts in readings]
    return sum(found) / len(found)


def str_hit(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 where every reading of the question is answered (`str_em` is 1), else 0.0; see there."""
    return float(str_em(example, prediction) == 1.0)
