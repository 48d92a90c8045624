"""Answer normalisation of the SQuAD and HotpotQA evaluation scripts; the answers of examples and predictions."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from typing import Any

from knowgap.signatures.values import is_unknown

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower-case, strip ASCII punctuation, drop English articles, squeeze white space (in this order).

    This is the normalisation of the official SQuAD (Rajpurkar et al., 2016) and HotpotQA (Yang et al., 2018) scripts;
    punctuation outside ASCII stays, as it does there.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def predicted_answer(prediction: Any) -> str | None:
    """The prediction's `answer` as text, or None if it is absent, blank, or neither text, a number nor a boolean."""
    answer = prediction if isinstance(prediction, str) else getattr(prediction, "answer", None)
    text = answer_text(answer) if isinstance(answer, (str, int, float)) else ""
    return text if text.strip() else None


def answer_text(value: str | float) -> str:
    """An answer as it is compared: a boolean as yes or no, a whole number without a decimal point."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def reference_answers(example: Any) -> list[str]:
    """All acceptable answers of an example: `answer` (one, or a list) first, then `aliases` not equal to it."""
    given = example.answer if isinstance(example.answer, (list, tuple)) else [example.answer]
    return list(dict.fromkeys(map(answer_text, [*given, *(getattr(example, "aliases", None) or [])])))


def contains_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether a text has the words of some answer side by side, both normalised."""
    words = f" {normalize_answer(text)} "
    return any(f" {answer} " in words for answer in map(normalize_answer, answers) if answer)


def is_unanswerable(references: Sequence[str]) -> bool:
    """Whether the acceptable answers of a question say that the documents do not answer it."""
    return "unanswerable" in map(normalize_answer, references)


def refuses(prediction: Any) -> bool:
    """Whether a prediction says that its answer is not supported, or gives an answer that says it is not known."""
    answer = predicted_answer(prediction)
    return getattr(prediction, "supported", None) is False or (answer is not None and is_unknown(answer))
