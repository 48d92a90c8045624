"""What a language model wrote, read with care."""

from __future__ import annotations

import dspy

__all__ = ["text_of"]


def text_of(output: dspy.Prediction | None, field: str = "answer") -> str:
    """The text of one output field, trimmed; empty where the model wrote none or its output could not be read."""
    return str(output.get(field) or "").strip() if output is not None else ""
