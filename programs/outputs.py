"""Reading the fields that a language model wrote: text, stated probabilities, lists of lines."""

from __future__ import annotations

import math
from collections.abc import Iterable

import dspy

__all__ = ["clean_lines", "probability_of", "text_of"]


def text_of(output: dspy.Prediction | None, field: str = "answer") -> str:
    """The text of an output field, stripped; empty if the model wrote none or its output could not be read."""
    return str(output.get(field) or "").strip() if output is not None else ""


def probability_of(output: dspy.Prediction | None, field: str = "confidence") -> float:
    """A stated probability, 0 to 1: a value above 1 is read as a percentage, a missing one as 0."""
    stated = output.get(field) if output is not None else None
    value = float(stated) if isinstance(stated, (int, float)) and math.isfinite(stated) else 0.0
    return min(1.0, max(0.0, value / 100 if value > 1 else value))


def clean_lines(lines: Iterable[str] | None, limit: int, exclude: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Remove empty and repeated lines from a list that a model wrote.

    Lines are the same if they differ only in case, white space or closing punctuation.

    Args:
        lines: None counts as empty.
        limit: maximum number of lines to keep.
        exclude: lines to leave out, such as queries asked before.

    Returns:
        The lines to use, and those left out because they repeat `exclude` or an earlier line.
    """
    seen = {_key(line) for line in exclude}
    new: list[str] = []
    repeated: list[str] = []
    for line in lines or ():
        text = " ".join(str(line).split())
        key = _key(text)
        if not key:
            continue
        if key in seen:
            repeated.append(text)
        elif len(new) < limit:
            seen.add(key)
            new.append(text)
    return new, repeated


def _key(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".?!。？！؟ ")
