"""Exact match."""

from __future__ import annotations

from typing import Any

from knowgap.compiling.evaluation.metrics.normalize import normalize_answer, predicted_answer, reference_answers

__all__ = ["exact_match"]


def exact_match(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 if the normalised answer equals a normalised reference, else 0.0."""
    answer = predicted_answer(prediction)
    if answer is None:
        return 0.0
    normalized = normalize_answer(answer)
    return float(any(normalized == normalize_answer(reference) for reference in reference_answers(example)))
