"""Read lists: of texts, of objects, and of the numbers of passages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from knowgap.signatures.values.literals import parse_literal
from knowgap.signatures.values.texts import says_nothing, unwrap

__all__ = ["read_ids", "read_list", "read_strings", "strip_list_marks"]

_NUMBER = re.compile(r"^\s*(?:[(\[]?(\d{1,2})[.):\]]\)?)\s")
_NAMED = re.compile(r"^\s*(?:q|query|question|sub-?(?:question|query)|step)\s*\d{1,2}\s*[:.)]\s+", re.I)
_BULLET = re.compile(r"^\s*(?:[-*•–—‣·▪]|\(?\d{1,2}[.):\]]\)?|\[\d{1,2}\]|\(?[a-z][.)])\s+")
_INLINE = re.compile(r"\s+(?=\(?\d{1,2}[.)]\s)")
_NO_ITEM = re.compile(
    r"(?:there (?:is|are) )?(?:no|none of the|neither)\b[^?\n]*\b"
    r"(?:questions?|quer(?:y|ies)|further|more|additional|needed|useful|relevant|facts?|statements?|passages?)\b[^?\n]*",
    re.I,
)
"""A sentence that says that a list is empty."""


def strip_list_marks(lines: Iterable[str]) -> list[str]:
    """Remove `-`, `*`, `•`, `Question 1:` in front of lines, and numbers where these count up from 1."""
    stripped = [_NAMED.sub("", line.strip(), count=1) for line in lines]
    numbers = [int(found[1]) if (found := _NUMBER.match(f"{line} ")) else 0 for line in stripped]
    counted = numbers == list(range(1, len(numbers) + 1))
    return [
        _BULLET.sub("", line, count=1).strip() if counted or not number else line
        for line, number in zip(stripped, numbers, strict=True)
    ]


def read_strings(value: Any) -> list[str]:
    """Read a list of texts: JSON, a Python list, lines with or without marks, questions in a row, one text alone.

    A comma or semicolon separates items only where each is quoted.
    """
    if value is None:
        return []
    if isinstance(value, Mapping):
        return read_strings(_items(value))
    if isinstance(value, (list, tuple)):
        return strip_list_marks(unwrap(_text_of_item(item)) for item in _flat(value))
    if not isinstance(value, str):
        return [str(value)]
    text = unwrap(value)
    if _is_empty(text):
        return []
    quoted = re.fullmatch(r"([\"'“«]).*[\"'”»]\s*,\s*[\"'“«].*[\"'”»],?", text, re.S)
    parsed = parse_literal(f"[{text}]" if quoted else text, repair=True)
    if isinstance(parsed, (list, dict)):
        return read_strings(parsed)
    if text.startswith("[") and text.endswith("?]"):
        text = text[1:-1]
    return [unwrap(line) for line in strip_list_marks(_lines(text))]


def _is_empty(text: str) -> bool:
    return says_nothing(text) or bool(_NO_ITEM.fullmatch(text))


def _lines(text: str) -> list[str]:
    """The lines of a list; where some have marks, those alone, each without what follows it."""
    return [line.partition("\n")[0] for line in _marked_lines(text)]


def _marked_lines(text: str) -> list[str]:
    """The lines of a list, each with the lines without a mark that follow it, where any has a mark."""
    lines = [line for line in text.splitlines() if line.strip().strip("`")]
    if len(lines) == 1:
        if re.match(r"\s*\(?1[.)]\s", text) and re.search(r"\s\(?2[.)]\s", text):
            return _INLINE.split(text.strip())
        questions = re.split(r"(?<=[?？])(?:\s*[,;]\s*|\s+)", text.strip())
        return questions if all(question.endswith(("?", "？")) for question in questions) else lines
    mark = next((mark for mark in (_NUMBER, _NAMED, _BULLET) if any(map(mark.match, lines))), None)
    if mark is None:
        return lines[1:] if len(lines) > 1 and lines[0].rstrip().endswith(":") else lines
    items: list[str] = []
    for line in lines:
        if mark.match(line):
            items.append(line)
        elif items:
            items[-1] += f"\n{line.strip()}"
    return items


def _items(value: Mapping[str, Any]) -> list[Any]:
    """The items of a list that was wrapped in an object, or numbered by one."""
    lists = [item for item in value.values() if isinstance(item, (list, tuple))]
    return list(lists[0]) if len(lists) == 1 else list(value.values())


def _flat(values: Iterable[Any]) -> list[Any]:
    return [item for value in values for item in (value if isinstance(value, (list, tuple)) else [value])]


def _text_of_item(item: Any) -> str:
    if isinstance(item, Mapping):
        return next((value for value in item.values() if isinstance(value, str)), "")
    return "" if item is None else str(item)


def read_list(value: Any) -> list[Any]:
    """Read a list of objects; one object, or the lines of a text, become the items."""
    if isinstance(value, str):
        text = unwrap(value)
        each = [parse_literal(line) for line in text.splitlines()] if text.startswith("{") else [None]
        parsed = each if None not in each else parse_literal(text, repair=True)
        if parsed is None:
            lines = [] if _is_empty(text) else _marked_lines(text)
            parsed = [unwrap(" ".join(line.split())) for line in strip_list_marks(lines)]
        value = parsed
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
        return [int(item)] if abs(item) < 10**6 else []  # not NaN, either
    return [int(digits) for digits in re.findall(r"(?<![\d.])\d{1,6}(?![\d.]*\d)", str(item))[:1]]


def _ids_in(text: str) -> list[int]:
    if isinstance(listed := parse_literal(text), (list, tuple)):
        return read_ids(listed)
    if not re.search(r"\d", text) and _is_empty(text):
        return []
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        lines = [line for line in lines if not re.search(r"irrelevant|not (?:relevant|helpful)", line, re.I)]
    starts = [re.match(r"\W*(?:passage\s*|p)?(\d{1,6})\b", line, re.I) for line in lines]
    if len(starts) > 1 and all(starts):
        return [int(start[1]) for start in starts if start]
    found = re.findall(r"\[\s*(\d{1,6}(?:\s*[,;]\s*\d{1,6})*)\s*\]", text)
    digits = re.findall(r"\d{1,6}", " ".join(found) if found else text)
    if not digits or (not found and len(text) > 200):
        raise ValueError(f"no numbers of passages: {text!r:.80}")
    return [int(number) for number in digits]
