"""What a language model wrote, read with care."""

from __future__ import annotations

import math

import dspy

__all__ = ["probability_of", "text_of"]


def text_of(output: dspy.Prediction | None, field: str = "answer") -> str:
    """The text of one output field, trimmed; empty where the model wrote none or its output could not be read."""
    return str(output.get(field) or "").strip() if output is not None else ""


def probability_of(output: dspy.Prediction | None, field: str = "confidence") -> float:
    """A stated probability from 0 to 1; one above 1 is read as a percentage, and none as 0."""
    stated = output.get(field) if output is not None else None
    value = float(stated) if isinstance(stated, (int, float)) and math.isfinite(stated) else 0.0
    return min(1.0, max(0.0, value / 100 if value > 1 else value))
