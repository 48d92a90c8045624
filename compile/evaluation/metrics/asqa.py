"""String exact match and hit rate of long answers to ambiguous questions (ASQA, as ALCE measures them)."""

from __future__ import annotations

from typing import Any

from knowgap.compiling.evaluation.metrics.normalize import normalize_answer, predicted_answer
from knowgap.errors import DataError
from knowgap.programs.reading.citations import strip_citations

__all__ = ["str_em", "str_hit"]


def str_em(example: Any, prediction: Any, trace: Any = None) -> float:
    """Fraction of the question's readings for which the prediction contains some short answer.

    Source: Stelmakh et al. (2022), section 5; normalised as SQuAD's answers, and with ALCE's preparation (Gao et al.,
    2023): only the prediction's first paragraph counts, without its citations. The example has `short_answers:
    list[list[str]]`, one list for each reading.

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
    answered = [any(normalize_answer(short) in text for short in shorts) for shorts in readings]
    return sum(answered) / len(answered)


def str_hit(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 if every reading of the question is answered (`str_em` is 1), else 0.0."""
    return float(str_em(example, prediction) == 1.0)
