"""Reads the values of output fields as language models write them: `5/5`, `Yes.`, `[1] and [2]`, numbered lines.

Each reader takes a text or a decoded JSON value, and raises `ValueError` if it cannot tell the value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import json_repair

_REPAIRABLE = 8_000
"""The most characters of Python or of damaged JSON that are repaired: the time grows with their square."""
_BRACKETS, _QUOTES = 100, 400
"""The most opening brackets and quotes that damaged JSON may have to be repaired."""
_STRAIGHT = str.maketrans(dict.fromkeys("“”„«»", '"') | dict.fromkeys("‘’", "'"))
_AROUND = [*((mark, mark) for mark in ("**", "__", "*", '"', "'", "`")), ("“", "”"), ("«", "»"), ("‘", "’")]
_FENCE = re.compile(r"\A```(?:[\w+-]*[ \t]*\n)?(?!.*```.*```)(.*?)\n?[ \t]*```\Z", re.S)

_NOTHING = {"", "none", "n/a", "na", "nil", "null", "nothing", "empty", "not applicable", "not available", "not needed"}
_UNKNOWN = _NOTHING | {"unknown", "not known", "unclear", "unanswerable", "i don't know", "i do not know", "don't know"}
_UNKNOWN |= {"not stated", "not mentioned", "not specified", "not given", "not found", "cannot tell", "no answer"}
_DENIAL = re.compile(  # a sentence that says that there is no answer
    r".*\b(?:is|are) not (?:\w+ly )?(?:specified|mentioned|stated|provided|known|clear)(?: (?:in|by|from) the\b.*)?"
    r"|(?:there is )?(?:no|not enough|insufficient) (?:\w+ )?information\b.*|.*\b(?:cannot|can't) be determined\b.*"
    r"|the (?:\w+ )?(?:statement|passage|text|context)s?(?: \w+)? do(?:es)? not (?:mention|provide|specify|say)\b.*"
)
_ITEMS = r"[^?\n]*\b(?:questions?|quer(?:y|ies)|facts?|statements?|passages?)\b[^?\n]*"
_YES = {"yes", "true", "correct", "relevant", "answerable", "1"}
_NO = {"no", "not", "false", "incorrect", "irrelevant", "unanswerable", "0"}
_NUMBER = re.compile(r"^\s*(?:[(\[]?(\d{1,2})[.):\]]\)?)\s")
_NAMED = re.compile(r"^\s*(?:q|query|question|sub-?(?:question|query)|step)\s*\d{1,2}\s*[:.)]\s+", re.I)
_BULLET = re.compile(r"^\s*(?:[-*•–—·▪]|\(?\d{1,2}[.):\]]\)?|\[\d{1,2}\]|\(?[a-z][.)])\s+")


def parse_literal(text: str) -> Any:
    """The JSON or Python value that a text spells, also if it was cut off; None if it spells none.

    A damaged text is repaired as far as its beginning says, if there is not too much to repair.
    """
    if text[:1] not in ("[", "{"):
        return None
    with suppress(ValueError, RecursionError):
        return json.loads(text, strict=False)
    begin = text[:_REPAIRABLE].translate(_STRAIGHT)
    too_much = sum(map(begin.count, "{[(")) > _BRACKETS or sum(map(begin.count, "\"'`")) > _QUOTES
    if too_much or not re.match(r"[\[{][\s\[]*[\"'{]", begin):
        return None
    with suppress(ValueError, RecursionError, MemoryError):
        return json_repair.loads(begin) or None
    return None


# Texts


def unwrap(text: str) -> str:
    """Take a text out of a code fence, emphasis or quotes that stand around the whole of it."""
    bare = text.strip()
    if fenced := _FENCE.match(bare):
        bare = fenced[1].strip()
    for opening, closing in _AROUND:
        inner = bare[len(opening) : -len(closing)]
        if bare == f"{opening}{inner}{closing}" and opening not in inner and closing not in inner:
            bare = inner.strip()
    return bare if bare == text else unwrap(bare)


def read_text(value: Any) -> str:
    """Read a text: null is empty, a boolean yes or no; items of a list are joined; an object's only value counts."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        value = [*value.values()] if len(value) == 1 else [f"{key}: {read_text(item)}" for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        parts = [read_text(item) for item in value]
        return (", " if all(len(part.split()) <= 5 for part in parts) else "\n").join(filter(None, parts))
    text = unwrap(str(value))
    if re.fullmatch(r"\[\s*[\"'].*\]", text, re.S) and isinstance(listed := parse_literal(text), list):
        return read_text(listed)
    return text.removesuffix("```").rstrip() if text.count("```") % 2 else text  # the fence of the whole reply


def says_nothing(text: str) -> bool:
    """Whether a text says that there is nothing to say: "None", "N/A", "No further questions are needed."."""
    bare = unwrap(text).strip("()[]{}.!-–—_ ").casefold()
    return bare in _NOTHING or re.fullmatch(rf"(?:no|none of the|there (?:is|are) no)\b{_ITEMS}", bare) is not None


def is_unknown(text: str) -> bool:
    """Whether a text says no more than that something is not known, in one of the ways in which models say it."""
    plain = unwrap(text).translate(_STRAIGHT).strip("()[]{}.!-–—_\n ").casefold()
    bare = plain.removeprefix("the answer is ").removeprefix("it is ")
    return bare in _UNKNOWN or (len(plain) < 250 and _DENIAL.fullmatch(plain) is not None)


# Yes or no, probabilities, grades


def read_bool(value: Any) -> bool:
    """Read a yes or no, also with a reason after or before it.

    Raises:
        ValueError: neither, or both.
    """
    text = unwrap(str([*value.values()] if isinstance(value, Mapping) else value)).casefold()
    first = re.match(r"\W*([^\W_]+)\b(?![.,]\d|\s*/\s*\w|\W*(?:or|and)\b)", text)
    if first and first[1] in _YES | _NO:
        return first[1] in _YES
    words = {*re.findall(r"\b(?:true|false|yes|no)\b", text)}
    if len({word in _YES for word in words}) == 1:
        return words <= _YES
    raise ValueError(f"neither yes nor no: {value!r:.80}")


def read_fraction(value: Any) -> float:
    """Read a probability from 0 to 1: `0.9`, `90%`, `9/10`, `9 out of 10`.

    Raises:
        ValueError: no number.
    """
    number, whole = _first_number(value)
    return min(1.0, max(0.0, number / (whole or (1 if number <= 1 else 10 if number <= 10 else 100))))


def read_scale(value: Any) -> int:
    """Read a whole number from 1 to 5: `5/5`, `5 (certain)`, `4 out of 5`, `90%`, `4.0`, `8/10`.

    Raises:
        ValueError: no number.
    """
    number, whole = _first_number(value)
    whole = whole or (1 if 0 < number < 1 else 5 if number <= 5 else 10 if number <= 10 else 100)
    return min(5, max(1, round((number if whole == 5 else 1 + 4 * number / whole) + 1e-9)))


def _first_number(value: Any) -> tuple[float, float | None]:
    """The first number of a value, and what it is a part of: 100 for a percentage, None if the value does not say."""
    text = re.sub(r"(?<=\d),(?=\d)", ".", unwrap(str(value)))
    found = re.search(r"(-?\d*\.?\d+)\s*(?:(%)|(?:/|out of|of)\s*(\d+(?:\.\d+)?))?", text[:300])
    if found is None:
        raise ValueError(f"no number: {value!r:.80}")
    return float(found[1]), 100.0 if found[2] else float(found[3] or 0) or None


# Lists


def strip_list_marks(lines: Iterable[str]) -> list[str]:
    """Remove `-`, `*`, `•`, `Question 1:` in front of lines, and numbers where these count up from 1."""
    stripped = [_NAMED.sub("", line.strip(), count=1) for line in lines]
    numbers = [int(found[1]) if (found := _NUMBER.match(f"{line} ")) else 0 for line in stripped]
    counted = numbers == list(range(1, len(numbers) + 1))
    return [
        _BULLET.sub("", line, count=1).strip() if counted or not number else line
        for line, number in zip(stripped, numbers, strict=True)
    ]


def read_list(value: Any) -> list[Any]:
    """Read a list: JSON, a Python list, lines with or without marks, one item alone; inner lists are joined to it."""
    if isinstance(value, str):
        text = unwrap(value)
        parsed = parse_literal(text)
        value = _lines(text) if parsed is None else parsed
    if isinstance(value, Mapping):  # one item, or an object that holds the list
        lists = [item for item in value.values() if isinstance(item, list)]
        value = lists[0] if len(lists) == len(value) == 1 else [value]
    items = list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]
    return [inner for item in items for inner in (read_list(item) if isinstance(item, (list, tuple)) else [item])]


def read_strings(value: Any) -> list[str]:
    """Read a list of texts; of an object in it, its first value counts."""
    items = [next(iter(item.values()), "") if isinstance(item, Mapping) else item for item in read_list(value)]
    return strip_list_marks(map(read_text, items))


def _lines(text: str) -> list[str]:
    """The lines of a list; where some have marks, those alone."""
    if says_nothing(text):
        return []
    lines = [line for line in text.splitlines() if line.strip().strip("`")]
    mark = next((mark for mark in (_NUMBER, _NAMED, _BULLET) if any(map(mark.match, lines))), None)
    marked = [line for line in lines if mark is None or mark.match(line)]
    return [unwrap(line) for line in strip_list_marks(marked)]


def read_ids(value: Any) -> list[int]:
    """Read the numbers of passages: `[1, 3]`, `1`, `"1, 3"`, `P1`, `[1] and [2]`, `Passages 1 and 3.`, `none`.

    If a text has numbers in brackets, only these count.

    Raises:
        ValueError: a text without a number that does not say that there are none.
    """
    if isinstance(value, (list, tuple)):
        return [number for item in value for number in read_ids(item)]
    text = "none" if value is None else unwrap(str(value))
    bracketed = re.findall(r"\[[-\d\s,;]+\]", text)
    numbers = re.findall(r"(?<!\d)-?\d+", " ".join(bracketed) or text)
    if (not numbers and not says_nothing(text)) or (not bracketed and len(text) > 200):
        raise ValueError(f"no numbers of passages: {text!r:.80}")
    return [int(number[:6]) for number in numbers]
