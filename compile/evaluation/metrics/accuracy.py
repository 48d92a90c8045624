"""Accuracy of closed answers: yes or no, and the letter of a multiple choice."""

from __future__ import annotations

import re
from typing import Any

from knowgap.compiling.evaluation.metrics.exact_match import exact_match
from knowgap.compiling.evaluation.metrics.normalize import predicted_answer

__all__ = ["accuracy", "read_choice", "read_yes_no"]

_YES_NO = re.compile(r"\b(yes|true|no|false)\b", re.IGNORECASE)
_CHOICES = (
    re.compile(r"^\W*([A-H1-8])\W*$", re.IGNORECASE),  # the letter and nothing else
    re.compile(r"\(([A-H1-8])\)", re.IGNORECASE),  # (B)
    re.compile(r"\b(?:answer|option|choice)\b(?:\s+is)?\W*([A-H1-8])\b(?!\s+[a-z])"),  # the answer is B
    re.compile(r"^\s*([A-H1-8])[.):]"),  # B. photosynthesis
)


def read_yes_no(text: str) -> str | None:
    """The first `yes`, `no`, `true` or `false` in the text, as "yes" or "no"; None if there is none."""
    match = _YES_NO.search(text)
    if match is None:
        return None
    return "yes" if match.group(1).lower() in ("yes", "true") else "no"


def read_choice(text: str) -> str | None:
    """The letter (upper case) or digit of the option that the text chooses; None if it names none."""
    for pattern in _CHOICES:
        if match := pattern.search(text):
            return match.group(1).upper()
    return None


def accuracy(example: Any, prediction: Any, trace: Any = None) -> float:
    """1.0 if the prediction chooses the right one of the closed answers, else 0.0.

    A reference of "yes" or "no" is compared with the first yes or no in the prediction. A reference of one letter or
    digit is compared with the option that the prediction names; if it names none, the text of the option (an alias)
    counts too. Any other reference is matched exactly after normalisation.
    """
    answer = predicted_answer(prediction)
    if answer is None:
        return 0.0
    gold = str(example.answer).strip()
    if gold.lower() in ("yes", "no"):
        return float(read_yes_no(answer) == gold.lower())
    if re.fullmatch(r"[A-H1-8]", gold) and (choice := read_choice(answer)) is not None:
        return float(choice == gold)
    return exact_match(example, prediction)
