"""Read the values of output fields as language models write them: `5/5`, `Yes.`, `[1] and [2]`, numbered lines.

Each reader takes a string or a decoded JSON value. It raises `ValueError` where the value cannot be told.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from knowgap.signatures.wordings import DEGREES, NO, NOTHING, NUMERALS, YES

__all__ = [
    "STRAIGHT_QUOTES",
    "read_bool",
    "read_fraction",
    "read_ids",
    "read_list",
    "read_option",
    "read_scale",
    "read_strings",
    "read_text",
    "strip_list_marks",
    "unwrap",
]

_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "«": "»", "»": "«", "‘": "’", "「": "」", "‹": "›"}
STRAIGHT_QUOTES = str.maketrans(dict.fromkeys("“”„«»「」", '"') | dict.fromkeys("‘’‹›", "'"))
_FENCE = re.compile(r"\A```(?:[\w+-]*[ \t]*\n)?(?!.*```.*```)(.*?)\n?[ \t]*```\Z", re.S)
_LABEL = re.compile(r"\A\W{0,4}[\w ]{1,24}?\W{0,4}[:：]\s*(?=\S)")
_BULLET = re.compile(r"^\s*(?:[-*•–—‣·▪]|\(?\d{1,2}[.):\]]\)?|\[\d{1,2}\]|\(?[a-z][.)])\s+")
_NUMBER = re.compile(r"^\s*[(\[]?(\d{1,2})[.):\]]\)?\s")
_INLINE = re.compile(r"\s+(?=\(?\d{1,2}[.)]\s)")


def unwrap(text: str) -> str:
    """Take a text out of a code fence, emphasis and quotes that stand around the whole of it."""
    while True:
        bare = text.strip()
        if fenced := _FENCE.match(bare):
            bare = fenced[1].strip()
        for mark in ("***", "**", "__", "*"):
            if len(bare) > 2 * len(mark) and bare.startswith(mark) and bare.endswith(mark):
                inner = bare[len(mark) : -len(mark)]
                bare = inner if mark not in inner and inner.strip() == inner else bare
        closing = _QUOTES.get(bare[:1])
        if closing and len(bare) > 1 and bare[-1] == closing and not {bare[0], closing} & set(bare[1:-1]):
            bare = bare[1:-1].strip()
        if bare == text:
            return bare
        text = bare


def _says_nothing(text: str) -> bool:
    return unwrap(text).strip("()[]{}.!-–—_ ").casefold() in NOTHING | {""}


def read_text(value: Any, name: str = "", *, optional: bool = False) -> str:
    """Read a text.

    Args:
        value: null counts as empty, a boolean as yes or no; the items of a list are joined.
        name: of the field, whose label is removed where the text begins with it.
        optional: whether "None", "N/A" and the like mean that there is no text.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        value = [f"{key}: {read_text(item)}" for key, item in value.items()] if len(value) != 1 else [*value.values()]
    if isinstance(value, (list, tuple)):
        parts = [read_text(item) for item in value]
        return (", " if all(len(part.split()) <= 5 for part in parts) else "\n").join(filter(None, parts))
    text = unwrap(str(value))
    if name and (label := re.match(rf"[*_`\"']*{_spelled(name)}[*_`\"']*\s*[:：][*_`\s]*(?=\S)", text, re.I)):
        text = unwrap(text[label.end() :])
    if text.startswith("[") and text.endswith("]") and isinstance(listed := _literal(text), list):
        text = read_text(listed) if listed and all(isinstance(item, str) for item in listed) else text
    if text.count("```") % 2:  # the reply was fenced as a whole, and the fence ends with its last field
        text = text.removesuffix("```").rstrip()
    return "" if optional and _says_nothing(text) else text


def _spelled(name: str) -> str:
    """A pattern for a field's name, also with spaces or hyphens for underscores."""
    return r"[\s_-]*".join(re.escape(part) for part in name.split("_"))


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
    if found := {word == "true" for word in re.findall(r"\b(?:true|false)\b", text)}:
        last = re.search(r"(?:is|:|=)\W*(true|false)\W*\Z", text)
        if len(found) == 1 or last:
            return last[1] == "true" if last else found.pop()
    if last := re.search(r"(?:\bis|:|\bso|\btherefore),?\W*(yes|no)\W*\Z", text):
        return last[1] == "yes"
    raise ValueError(f"neither yes nor no: {value!r:.80}")


def _verdict(text: str, name: str) -> bool | None:
    """What the first word says; None if that is neither or if an alternative follows."""
    found = re.match(r"\W*([^\W_]+(?![.,]\d))\W*(?:(or|and)\b)?", text)
    if not found or found[2] in ("or", "and") or re.match(r"\W*\w+\s*/\s*\w", text):
        return None
    if found[1] in YES or found[1] in NO:
        return found[1] in YES
    stem = name.casefold()
    if stem and (named := re.match(rf"\W*(not (?:very |really )?|ir|un|in)?{re.escape(stem)}\b", text)):
        return named[1] is None
    return None


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


def _fraction(value: Any, of_number: Any) -> float:
    """A value as a fraction of its scale; `of_number` converts a number that stands alone."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if isinstance(value, Mapping) and len(value) == 1:
        value = next(iter(value.values()))
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"no number: {value!r:.80}")
    fraction = of_number(float(value)) if not isinstance(value, str) else _worded(unwrap(value).casefold(), of_number)
    if not math.isfinite(fraction):
        raise ValueError(f"no number: {value!r:.80}")
    return min(1.0, max(0.0, fraction))


def _worded(text: str, of_number: Any) -> float:
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


def strip_list_marks(lines: Iterable[str]) -> list[str]:
    """Remove `-`, `*`, `•` in front of lines, and numbers where these count up from 1."""
    stripped = [line.strip() for line in lines]
    numbers = [int(found[1]) if (found := _NUMBER.match(f"{line} ")) else 0 for line in stripped]
    counted = numbers == list(range(1, len(numbers) + 1))
    return [
        _BULLET.sub("", line, count=1).strip() if counted or not number else line
        for line, number in zip(stripped, numbers, strict=True)
    ]


def read_strings(value: Any) -> list[str]:
    """Read a list of texts: JSON, a Python list, lines with or without marks, one text alone."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return read_strings(_items(value))
    if isinstance(value, (list, tuple)):
        return strip_list_marks(unwrap(_worded_item(item)) for item in _flat(value))
    if not isinstance(value, str):
        return [str(value)]
    if _says_nothing(value):
        return []
    if isinstance(parsed := _literal(unwrap(value)), (list, dict)):
        return read_strings(parsed)
    return [unwrap(line) for line in strip_list_marks(_lines(unwrap(value)))]


def _lines(text: str) -> list[str]:
    """The lines of a list; those with marks alone if any has one."""
    lines = [line for line in text.splitlines() if line.strip().strip("`")]
    marked = [line for line in lines if _BULLET.match(line)]
    if len(lines) == 1 and re.match(r"\s*\(?1[.)]\s", text) and re.search(r"\s\(?2[.)]\s", text):
        return _INLINE.split(text.strip())
    if marked:
        return marked
    return lines[1:] if len(lines) > 1 and lines[0].rstrip().endswith(":") else lines


def _items(value: Mapping[str, Any]) -> list[Any]:
    """The items of a list that was wrapped in an object, or numbered by one."""
    lists = [item for item in value.values() if isinstance(item, (list, tuple))]
    return list(lists[0]) if len(lists) == 1 else list(value.values())


def _flat(values: Iterable[Any]) -> list[Any]:
    return [item for value in values for item in (value if isinstance(value, (list, tuple)) else [value])]


def _worded_item(item: Any) -> str:
    if isinstance(item, Mapping):
        return next((value for value in item.values() if isinstance(value, str)), "")
    return "" if item is None else str(item)


def _literal(text: str) -> Any:
    """The JSON or Python value that a text spells, also with typographic quotes; None if it spells none."""
    if text[:1] not in ("[", "{", "(") or len(text) > 50_000:
        return None
    for spelled in (text, text.translate(STRAIGHT_QUOTES)):
        for parse in (json.loads, ast.literal_eval):
            try:
                return parse(spelled)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
    items = re.findall(r"[“„«「‘‹](.*?)[”“»」’›](?=\s*[,\]])", text)
    return items or None


def read_list(value: Any) -> list[Any]:
    """Read a list of objects; one object, or the lines of a text, become the items."""
    if isinstance(value, str):
        parsed = _literal(unwrap(value))
        value = read_strings(value) if parsed is None else parsed
    if isinstance(value, Mapping):
        inner = list(value.values())
        return list(inner[0]) if len(inner) == 1 and isinstance(inner[0], (list, tuple)) else [value]
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]


def read_ids(value: Any) -> list[int]:
    """Read the numbers of passages: `[1, 3]`, `1`, `"1, 3"`, `P1`, `[1] and [2]`, `Passages 1 and 3.`, `none`.

    Raises:
        ValueError: a text without a number that does not say that there are none.
    """
    if isinstance(value, Mapping):
        value = _items(value)
    if isinstance(value, (list, tuple)):
        return [number for item in value for number in _ids_of_item(item)]
    if isinstance(value, str):
        return _ids_in(unwrap(value))
    return _ids_of_item(value)


def _ids_of_item(item: Any) -> list[int]:
    if isinstance(item, Mapping):
        item = item.get("id", next(iter(item.values()), None))
    if isinstance(item, bool) or item is None:
        return []
    if isinstance(item, (int, float)):
        return [int(item)] if math.isfinite(item) and abs(item) < 10**6 else []
    return [int(digits) for digits in re.findall(r"(?<![\d.])\d{1,6}(?![\d.]*\d)", str(item))[:1]]


def _ids_in(text: str) -> list[int]:
    if _says_nothing(text):
        return []
    if isinstance(listed := _literal(text), (list, tuple)):
        return read_ids(listed)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        lines = [line for line in lines if not re.search(r"irrelevant|not (?:relevant|helpful)", line, re.I)]
    if len(lines) > 1 and all(re.match(r"\W*(?:passage\s*|p)?\d+\b", line, re.I) for line in lines):
        return [int(re.search(r"\d+", line)[0][:6]) for line in lines]  # pyright: ignore[reportOptionalSubscript]
    found = re.findall(r"\[\s*(\d{1,6}(?:\s*[,;]\s*\d{1,6})*)\s*\]", text)
    digits = re.findall(r"\d{1,6}", " ".join(found) if found else text)
    if not digits or (not found and len(text) > 200):
        raise ValueError(f"no numbers of passages: {text!r:.80}")
    return [int(number) for number in digits]


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
