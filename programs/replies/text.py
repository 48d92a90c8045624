"""Reading what a language model wrote: text, lists of lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import dspy
from pydantic import BaseModel

from knowgap.retrieval.words import content_words
from knowgap.retrieval.words import words as find_words
from knowgap.signatures.values import is_unknown, strip_list_marks

_CLOSING = " .?!…。？！؟۔।"
"""Punctuation at the end of a line, in the scripts that have their own."""
_SHORT_WORDS, _TITLE_WORDS = 8, 4
"""The most words of a short answer, and of a text that is not a sentence although it ends in a full stop."""
_OFFER = re.compile(r"\bor (?:the )?[\"'“‘]?(?=[^\W_])[^a-z]")
"""Before the last of the names that a question offers."""


def text_of(output: dspy.Prediction | None, field: str = "answer") -> str:
    """The text of an output field, stripped; empty if there is none or the output could not be read."""
    return str(output.get(field) or "").strip() if output is not None else ""


def known_text(output: dspy.Prediction | None, field: str = "answer") -> str:
    """The text of an output field; empty if the model says that it does not know."""
    text = text_of(output, field)
    return "" if output is None or output.get("knows") is False or is_unknown(text) else text


def clean_lines(lines: Iterable[str] | None, limit: int, exclude: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Remove list marks, empty lines and repeated lines from a list that a model wrote.

    Lines are the same if they differ only in case, white space or closing punctuation.

    Args:
        lines: None counts as empty.
        limit: number of lines to keep at most.
        exclude: lines to leave out, such as queries asked before.

    Returns:
        The lines to use, and those left out because they repeat `exclude` or an earlier line.
    """
    seen = {_key(line) for line in exclude}
    new: list[str] = []
    repeated: list[str] = []
    for line in strip_list_marks(str(line) for line in lines or ()):
        text = " ".join(line.split())
        if (key := _key(text)) in seen:
            repeated.append(text)
        elif key and len(new) < limit:
            seen.add(key)
            new.append(text)
    return new, repeated


def _key(line: str) -> str:
    return " ".join(line.casefold().split()).rstrip(_CLOSING)


def without_surrogates(value: Any) -> Any:
    """Replace lone surrogates, which a model can write as escapes but which cannot be sent or stored."""
    return map_texts(value, lambda text: text.encode("utf-8", "replace").decode("utf-8"))


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Change every text in a value: a text itself, or those in lists, dictionaries and models."""
    match value:
        case str():
            return change(value)
        case list():
            return [map_texts(item, change) for item in value]
        case dict():
            return {map_texts(key, change): map_texts(item, change) for key, item in value.items()}
        case BaseModel():
            return value.model_copy(update={name: map_texts(item, change) for name, item in value})
        case _:
            return value


def fits_style(answer: str, style: str, question: str = "") -> bool:
    """Whether an answer is as short as its style requires, and chooses where the question offers names.

    A short one has at most eight words and is not a sentence, or occurs in the question, as a long title may. An answer
    other than yes or no to "Which is older, Orle or Tarn?" shares a word with the question.
    """
    words, offered = answer.split(), {"yes", "no", *content_words(question)}
    if _OFFER.search(question) and offered.isdisjoint(find_words(answer)):
        return False
    if style == "yes_no":
        return re.fullmatch(r"\W*(?:yes|no)\W*", answer.casefold()) is not None
    if style == "choice":
        return re.fullmatch(r"\W*\w\W*", answer) is not None
    ends = re.search(r"(?:[^\W\d_]{3}|\d)(?<!\bInc)(?<!\bLtd)\.[\"'”’»]?$", answer)
    is_sentence = len(words) > _TITLE_WORDS and ends is not None
    is_short = (len(words) <= _SHORT_WORDS and not is_sentence) or answer.casefold() in question.casefold()
    return bool(words) and (style != "short" or is_short)
