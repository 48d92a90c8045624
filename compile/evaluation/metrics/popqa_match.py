"""PopQA's accuracy: the prediction contains an acceptable answer."""

from __future__ import annotations

from typing import Any

from knowgap.compiling.evaluation.metrics.normalize import predicted_answer, reference_answers

__all__ = ["popqa_match"]


def popqa_match(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 if the prediction contains an acceptable answer, as it is, in lower case or capitalised, else 0.0.

    This is the accuracy of Mallen et al. (2023), section 3: a substring, without normalisation.
    """
    answer = predicted_answer(prediction)
    if answer is None:
        return 0.0
    references = reference_answers(example)
    return float(any(form in answer for r in references for form in (r, r.lower(), r.capitalize())))
