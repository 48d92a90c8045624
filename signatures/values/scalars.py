"""Read yes or no, probabilities, grades on a scale, and one of a few words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from knowgap.signatures.values.texts import unwrap
from knowgap.signatures.values.wordings import DEGREES, NO, NUMERALS, YES

__all__ = ["read_bool", "read_fraction", "read_option", "read_scale"]

_LABEL = re.compile(r"\A\W{0,4}[\w ]{1,24}?\W{0,4}[:：]\s*(?=\S)")
_ADVERB = re.compile(r"\A\W*(?:definitely|certainly|absolutely|clearly|probably|likely|so|thus|therefore|hence),?\s+")

_END = 200
"""Characters at the end of a text in which a last word is looked for: the time grows with their square."""
_NEGATION = re.compile(r"(?:\b(?:no|not|never|hardly)\b|n['’]t\b)[\w -]{0,24}\Z")  # at most 40 characters


def read_bool(value: Any, name: str = "") -> bool:
    """Read a yes or no in many languages, also with a reason after it, or the field's name: `relevant`, `irrelevant`.

    Raises:
        ValueError: neither, or both.
    """
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return bool(value)
    if (isinstance(value, (list, tuple)) and len(value) == 1) or (isinstance(value, Mapping) and len(value) == 1):
        return read_bool(next(iter(value.values() if isinstance(value, Mapping) else value)), name)
    if not isinstance(value, str):
        raise ValueError(f"neither yes nor no: {value!r:.80}")
    text = unwrap(value).casefold()
    for _ in range(2):  # "Answer: yes"
        if (verdict := _verdict(text, name)) is not None:
            return verdict
        label = _LABEL.match(text)
        text = unwrap(text[label.end() :]) if label else text
    end = text[-_END:]
    if found := {word == "true" for word in re.findall(r"\b(?:true|false)\b", text)}:
        last = re.search(r"(?:is|:|=)\W*(true|false)\W*\Z", end)
        if len(found) == 1 or last:
            return last[1] == "true" if last else found.pop()
    if last := re.search(r"(?:\bis|:|\bso|\btherefore),?\W*(yes|no)\W*\Z", end):
        return last[1] == "yes"
    raise ValueError(f"neither yes nor no: {value!r:.80}")


def _verdict(text: str, name: str) -> bool | None:
    """What the first word says, or the field's name with or without a negation; None if neither or if both."""
    found = re.match(r"\W*([^\W_]+(?![.,]\d))\W*(?:(or|and)\b)?", _ADVERB.sub("", text))
    if not found or found[2] or re.match(r"\W*\w+\s*/\s*\w", text):
        return None
    if found[1] in YES or found[1] in NO:
        return found[1] in YES
    named = re.finditer(rf"\b(ir|un|in)?{re.escape(name.casefold())}\b", text) if name else ()
    said = {not word[1] and not _NEGATION.search(text, max(0, word.start() - 40), word.start()) for word in named}
    if len(said) == 1:
        return said.pop()
    return False if found[1] == "not" else None


def read_fraction(value: Any) -> float:
    """Read a probability from 0 to 1: `0.9`, `90%`, `9/10`, `9 out of 10`, `0,9`, `very likely`.

    Raises:
        ValueError: no number and no known word.
    """
    return _fraction(value, lambda number: number if number <= 1 else number / 10 if number <= 10 else number / 100)


def read_scale(value: Any, low: int, high: int) -> int:
    """Read a whole number on a scale: `5/5`, `5 (certain)`, `4 out of 5`, `five`, `high`, `90%`, `4.0`, `8/10`.

    Raises:
        ValueError: no number and no known word.
    """

    def on_scale(number: float) -> float:
        if 0 < number < low:
            return number
        top = high if number <= high else 10 if number <= 10 else 100
        return (number - low) / (high - low) if top == high else number / top

    return min(high, max(low, round(low + (high - low) * _fraction(value, on_scale) + 1e-9)))


def _fraction(value: Any, of_number: Callable[[float], float]) -> float:
    """A value as a fraction of its scale; `of_number` converts a number that stands alone."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if isinstance(value, Mapping) and len(value) == 1:
        value = next(iter(value.values()))
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"no number: {value!r:.80}")
    try:
        fraction = _worded(unwrap(value).casefold(), of_number) if isinstance(value, str) else of_number(float(value))
    except OverflowError:  # a whole number of hundreds of digits
        fraction = math.inf
    if not math.isfinite(fraction):
        raise ValueError(f"no number: {value!r:.80}")
    return min(1.0, max(0.0, fraction))


def _worded(text: str, of_number: Callable[[float], float]) -> float:
    text = re.sub(r"(?<=\d),(?=\d)", ".", text)
    text = re.sub(r"\b(" + "|".join(NUMERALS) + r")\b", lambda word: str(NUMERALS[word[1]]), text)
    found = re.search(r"(-?\d*\.?\d+)\s*(?:(%|percent\b)|(?:/|out of|of|von|sur|de)\s*(\d+(?:\.\d+)?))?", text[:400])
    if found:
        number = float(found[1])
        if found[2]:
            return number / 100
        whole = float(found[3] or 0)
        if not whole:
            return of_number(number)
        return of_number(number) if whole == 5 else number / whole
    for words, fraction in DEGREES.items() if len(text.split()) <= 8 else ():
        if said := re.search(rf"(\bnot (?:\w+ )?)?\b{words}\b", text):
            return fraction if not said[1] else 0.25 if fraction >= 0.5 else 0.5
    raise ValueError(f"no number: {text!r:.80}")


def read_option(value: Any, options: Iterable[Any]) -> Any:
    """Read one of a few words, whatever its case and the marks around it.

    Raises:
        ValueError: none of them.
    """
    text = unwrap(str(value)).strip(" .!,;:()[]").casefold()
    for option in options:
        if str(option).casefold() == text or re.match(rf"{re.escape(str(option).casefold())}(?:\b(?!\w)|\()", text):
            return option
    raise ValueError(f"none of the options: {value!r:.80}")
