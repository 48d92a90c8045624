"""Reads the values of output fields as language models write them: `5/5`, `Yes.`, `[1] and [2]`, numbered lines.

Each reader takes a text or a decoded JSON value, and raises `ValueError` if it cannot tell the value.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import json_repair

REPAIRABLE = 8_000
"""The most characters of Python or of damaged JSON that are read: the time grows with their square."""
_LONGEST_JSON = 50_000
_BRACKETS, _DEPTH, _QUOTES = 100, 8, 400
"""The most opening brackets, levels of nesting and quotes that damaged JSON may have to be repaired."""
_END = 200  # characters at the end of a text that are searched for a verdict: the time grows with their square
STRAIGHT_QUOTES = str.maketrans(dict.fromkeys("“”„«»", '"') | dict.fromkeys("‘’", "'"))
"""Translates typographic quotes into straight ones."""
_QUOTES_AROUND = {'"': '"', "'": "'", "`": "`", "“": "”", "«": "»", "‘": "’"}
_FENCE = re.compile(r"\A```(?:[\w+-]*[ \t]*\n)?(?!.*```.*```)(.*?)\n?[ \t]*```\Z", re.S)
_BOXED = re.compile(r"\A\$*\\boxed\{(?:\\text\{([^{}]*)\}|([^{}]*))\}\$*\Z")

_NOTHING = {"", "none", "n/a", "na", "nil", "null", "nothing", "empty", "unavailable", "not applicable", "not yet"}
_NOTHING |= {"not available", "not needed", "none needed", "nothing missing", "nothing is missing", "not known yet"}
_UNKNOWN = _NOTHING | {"unknown", "not known", "unclear", "unanswerable", "i don't know", "i do not know", "don't know"}
_UNKNOWN |= {"not stated", "not mentioned", "not specified", "not given", "not found", "cannot tell", "no answer"}
_DENIAL = re.compile(  # a sentence that says that there is no answer
    r".*\b(?:is|are) not (?:\w+ly )?(?:specified|mentioned|stated|provided|known|clear)(?: (?:in|by|from) the\b.*)?"
    r"|(?:there is )?(?:no|not enough|insufficient) (?:\w+ )?information\b.*|.*\b(?:cannot|can't) be determined\b.*"
    r"|the (?:\w+ )?(?:statement|passage|text|context)s?(?: \w+)? do(?:es)? not (?:mention|provide|specify|say)\b.*"
)
_YES = frozenset({"yes", "yeah", "yep", "y", "true", "t", "correct", "right", "1"})
_NO = frozenset({"no", "nope", "n", "false", "f", "incorrect", "wrong", "0"})
_DEGREES = {
    "almost certain": 0.95, "nearly certain": 0.95, "very unlikely": 0.1, "highly unlikely": 0.1, "very low": 0.1,
    "very high": 0.9, "very likely": 0.9, "highly likely": 0.9, "very confident": 0.9,
    "highly confident": 0.9, "very sure": 0.95, "unlikely": 0.25, "improbable": 0.25, "unsure": 0.25,
    "uncertain": 0.25, "doubtful": 0.25, "impossible": 0.0, "guess": 0.0, "low": 0.25, "certain": 1.0,
    "certainly": 1.0, "definitely": 1.0, "definite": 1.0, "sure": 1.0, "high": 0.75, "likely": 0.75,
    "probable": 0.75, "probably": 0.75, "confident": 0.75, "medium": 0.5, "moderate": 0.5, "moderately": 0.5,
    "fair": 0.5, "possible": 0.5, "possibly": 0.5, "maybe": 0.5, "perhaps": 0.5,
}  # fmt: skip
"""Words for a degree, as fractions of its scale."""
_NUMERALS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]

_LABEL = re.compile(r"\A\W{0,4}[\w ]{1,24}?\W{0,4}:\s*(?=\S)")
_ADVERB = re.compile(r"\A\W*(?:definitely|certainly|absolutely|clearly|probably|likely|so|thus|therefore|hence),?\s+")
_NEGATION = re.compile(r"(?:\b(?:no|not|never|hardly)\b|n['’]t\b)[\w -]{0,24}\Z")  # at most 40 characters

_NUMBER = re.compile(r"^\s*(?:[(\[]?(\d{1,2})[.):\]]\)?)\s")
_NAMED = re.compile(r"^\s*(?:q|query|question|sub-?(?:question|query)|step)\s*\d{1,2}\s*[:.)]\s+", re.I)
_BULLET = re.compile(r"^\s*(?:[-*•–—·▪]|\(?\d{1,2}[.):\]]\)?|\[\d{1,2}\]|\(?[a-z][.)])\s+")
_NO_ITEM = re.compile(
    r"(?i)(?:there (?:is|are) )?(?:no|none of the|neither)\b[^?\n]*\b"
    r"(?:questions?|quer(?:y|ies)|further|more|additional|needed|useful|relevant|facts?|statements?|passages?)\b[^?\n]*"
)
"""A sentence that says that a list is empty."""


# JSON and Python


def parse_literal(text: str, *, repair: bool = False) -> Any:
    """The JSON or Python value that a text spells, also with typographic quotes; None if it spells none.

    Args:
        text: a list, an object, or a call such as `Statement(statement="…")`, which becomes an object.
        repair: whether to repair what is damaged, such as a list that was cut off.
    """
    if text[:1] not in ("[", "{", "(") or len(text) > _LONGEST_JSON:
        return None
    for spelled in (text, text.translate(STRAIGHT_QUOTES)):
        with suppress(ValueError, RecursionError):
            return json.loads(spelled)
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            if len(spelled) <= REPAIRABLE:  # a backslash that escapes nothing is literal
                escaped = re.sub(r"""\\(?![\\'"\nabfnrtv0-7xNuU])""", r"\\\\", spelled)
                return _python_value(ast.parse(escaped, mode="eval").body)
    return repair_json(text) if repair and re.match(r"[\[{][\s\[]*[\"'{]", text) else None


def _python_value(node: ast.expr) -> Any:
    """The value of a literal; tuples and sets become lists, and calls with keywords become objects.

    Raises:
        ValueError: it is no literal.
    """
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_python_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return {ast.literal_eval(key): _python_value(value) for key, value in pairs if key is not None}
        case ast.Call(func=ast.Name(), args=[], keywords=keywords):
            return {str(keyword.arg): _python_value(keyword.value) for keyword in keywords}
        case ast.Name(id="true" | "false" | "null" as name):
            return json.loads(name)
        case _:
            return ast.literal_eval(node)


def repair_json(text: str) -> Any:
    """What the beginning of a damaged JSON text says; None if that is nothing, or if there is too much to repair."""
    text = text[:REPAIRABLE]
    depths = itertools.accumulate((1 if mark in "{[(" else -1 for mark in re.findall(r"[\[\](){}]", text)), initial=0)
    if sum(map(text.count, "{[(")) > _BRACKETS or sum(map(text.count, "\"'“”`")) > _QUOTES or max(depths) > _DEPTH:
        return None
    with suppress(ValueError, RecursionError, MemoryError):
        return json_repair.loads(text) or None
    return None


# Texts


def unwrap(text: str) -> str:
    """Take a text out of a code fence, emphasis, quotes or a box that stand around the whole of it."""
    while True:
        bare = text.strip()
        if fenced := _FENCE.match(bare):
            bare = fenced[1].strip()
        if boxed := _BOXED.match(bare):
            bare = (boxed[1] or boxed[2] or "").strip()
        for mark in ("***", "**", "__", "*"):
            if len(bare) > 2 * len(mark) and bare.startswith(mark) and bare.endswith(mark):
                inner = bare[len(mark) : -len(mark)]
                bare = inner if mark not in inner and inner.strip() == inner else bare
        closing = _QUOTES_AROUND.get(bare[:1])
        if closing and len(bare) > 1 and bare[-1] == closing and not {bare[0], closing} & set(bare[1:-1]):
            bare = bare[1:-1].strip()
        if bare == text:
            return bare
        text = bare


def read_text(value: Any, name: str = "", *, optional: bool = False) -> str:
    """Read a text.

    Args:
        value: null counts as empty, a boolean as yes or no; the items of a list are joined; of an object with the name
            of the field among its keys, that one counts.
        name: the name of the field, whose label, tag or key is removed from around the text.
        optional: whether "None", "N/A" and the like mean that there is no text.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        own = [item for key, item in value.items() if str(key).casefold() == name.casefold()]
        single = own[:1] or (len(value) == 1 and [*value.values()])
        value = single or [f"{key}: {read_text(item)}" for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        parts = [read_text(item) for item in value]
        return (", " if all(len(part.split()) <= 5 for part in parts) else "\n").join(filter(None, parts))
    text = unwrap(str(value))
    if name:
        text = _without_name(text, name)
    if text.startswith("[") and text.endswith("]") and isinstance(listed := parse_literal(text), list):
        text = read_text(listed) if listed and all(isinstance(item, str) for item in listed) else text
    if text.count("```") % 2:  # the reply was fenced as a whole, and the fence ends with its last field
        text = text.removesuffix("```").rstrip()
    return "" if optional and _says_nothing(text) else text


def _without_name(text: str, name: str) -> str:
    """Remove the name of the field, which some models repeat as a label, a tag or a JSON key."""
    spelled = r"[\s_-]*".join(re.escape(part) for part in name.split("_"))
    if tagged := re.fullmatch(rf"<({spelled})>(.*)</\1>", text, re.I | re.S):
        return unwrap(tagged[2])
    if re.match(rf"\{{\s*[\"']{name}[\"']", text) and isinstance(parsed := parse_literal(text), dict):
        return read_text(parsed.get(name))
    if label := re.match(rf"[*_`\"']*{spelled}[*_`\"']*\s*:[*_`\s]*(?=\S)", text, re.I):
        return unwrap(text[label.end() :])
    return text


def _says_nothing(text: str) -> bool:
    return unwrap(text).strip("()[]{}.!-–—_ ").casefold() in _NOTHING


def is_unknown(text: str) -> bool:
    """Whether a text says no more than that something is not known, in one of the ways in which models say it."""
    plain = unwrap(text).translate(STRAIGHT_QUOTES).strip("()[]{}.!-–—_ ").casefold()
    bare = plain.removeprefix("the answer is ").removeprefix("it is ")
    return bare in _UNKNOWN or any(len(text) < 250 and _DENIAL.fullmatch(text) for text in (plain, bare))


# Yes or no, probabilities, grades, options


def read_bool(value: Any, name: str = "") -> bool:
    """Read a yes or no, also with a reason after it, or the field's name: `relevant`, `irrelevant`.

    Raises:
        ValueError: neither, or both.
    """
    value = _only(value)
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return bool(value)
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


def _only(value: Any) -> Any:
    """What a list or an object with a single item holds."""
    if isinstance(value, Mapping):
        value = list(value.values())
    return value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value


def _verdict(text: str, name: str) -> bool | None:
    """What the first word says, or the field's name with or without a negation; None if neither or if both."""
    found = re.match(r"\W*([^\W_]+(?![.,]\d))\W*(?:(or|and)\b)?", _ADVERB.sub("", text))
    if not found or found[2] or re.match(r"\W*\w+\s*/\s*\w", text):
        return None
    if found[1] in _YES or found[1] in _NO:
        return found[1] in _YES
    named = re.finditer(rf"\b(ir|un|in)?{re.escape(name.casefold())}\b", text) if name else ()
    said = {not word[1] and not _NEGATION.search(text, max(0, word.start() - 40), word.start()) for word in named}
    if len(said) == 1:
        return said.pop()
    return False if found[1] == "not" else None


def read_fraction(value: Any) -> float:
    """Read a probability from 0 to 1: `0.9`, `90%`, `9/10`, `9 out of 10`, `very likely`.

    Raises:
        ValueError: no number and no known word.
    """
    return _fraction(value, lambda number: number if number <= 1 else number / 10 if number <= 10 else number / 100, 0)


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

    return min(high, max(low, round(low + (high - low) * _fraction(value, on_scale, high) + 1e-9)))


def _fraction(value: Any, of_number: Callable[[float], float], top: int) -> float:
    """A value as a fraction of its scale; `of_number` converts a number that stands alone, or before `/top`."""
    value = _only(value)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"no number: {value!r:.80}")
    try:
        fraction = (
            _worded(unwrap(value).casefold(), of_number, top) if isinstance(value, str) else of_number(float(value))
        )
    except OverflowError:  # a whole number of hundreds of digits
        fraction = math.inf
    if not math.isfinite(fraction):
        raise ValueError(f"no number: {value!r:.80}")
    return min(1.0, max(0.0, fraction))


def _worded(text: str, of_number: Callable[[float], float], top: int) -> float:
    text = re.sub(r"(?<=\d),(?=\d)", ".", text)
    text = re.sub(r"\b(" + "|".join(_NUMERALS) + r")\b", lambda word: str(_NUMERALS.index(word[1])), text)
    found = re.search(r"(-?\d*\.?\d+)\s*(?:(%|percent\b)|(?:/|out of|of)\s*(\d+(?:\.\d+)?))?", text[:400])
    if found:
        number = float(found[1])
        if found[2]:
            return number / 100
        whole = float(found[3] or 0)
        return number / whole if whole and whole != top else of_number(number)
    for words, fraction in _DEGREES.items() if len(text.split()) <= 8 else ():
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


def read_strings(value: Any) -> list[str]:
    """Read a list of texts: JSON, a Python list, lines with or without marks, questions in a row, one text alone.

    A comma or semicolon separates items only where each is quoted.
    """
    if value is None:
        return []
    if isinstance(value, Mapping):
        value = _items(value)
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
    return [unwrap(line) for line in strip_list_marks(item.partition("\n")[0] for item in _lines(text))]


def _is_empty(text: str) -> bool:
    return _says_nothing(text) or bool(_NO_ITEM.fullmatch(text))


def _lines(text: str) -> list[str]:
    """The lines of a list; where some have marks, those alone, each with the lines without a mark that follow it."""
    lines = [line for line in text.splitlines() if line.strip().strip("`")]
    if len(lines) == 1:
        if re.match(r"\s*\(?1[.)]\s", text) and re.search(r"\s\(?2[.)]\s", text):
            return re.split(r"\s+(?=\(?\d{1,2}[.)]\s)", text.strip())
        questions = re.split(r"(?<=\?)(?:\s*[,;]\s*|\s+)", text.strip())
        return questions if all(question.endswith("?") for question in questions) else lines
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
        item = next((value for value in item.values() if isinstance(value, str)), None)
    return "" if item is None else str(item)


def read_list(value: Any) -> list[Any]:
    """Read a list of objects; one object, the lines of a text, or the items of inner lists become the items."""
    if isinstance(value, str):
        text = unwrap(value)
        each = [parse_literal(line) for line in text.splitlines()] if text.startswith("{") else [None]
        value = each if None not in each else parse_literal(text, repair=True)
        if value is None:
            lines = [] if _is_empty(text) else _lines(text)
            value = [unwrap(" ".join(line.split())) for line in strip_list_marks(lines)]
    if isinstance(value, Mapping):
        value = next((inner for inner in value.values() if len(value) == 1 and isinstance(inner, list)), [value])
    items = list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]
    return [inner for item in items for inner in (read_list(item) if isinstance(item, list) else [item])]


def read_ids(value: Any) -> list[int]:
    """Read the numbers of passages: `[1, 3]`, `1`, `"1, 3"`, `P1`, `[1] and [2]`, `Passages 1 and 3.`, `none`.

    Raises:
        ValueError: a text without a number that does not say that there are none.
    """
    if isinstance(value, Mapping):
        value = _items(value)
    if isinstance(value, str):
        return _ids_in(unwrap(value))
    return [number for item in (value if isinstance(value, (list, tuple)) else [value]) for number in _id_of(item)]


def _id_of(item: Any) -> list[int]:
    if isinstance(item, Mapping):
        item = item.get("id", next(iter(item.values()), None))
    if isinstance(item, bool) or item is None:
        return []
    if isinstance(item, (int, float)):
        return [int(item)] if abs(item) < 10**6 else []  # false for NaN as well
    return [int(digits) for digits in re.findall(r"(?<![\d.])\d{1,6}(?![\d.]*\d)", str(item))[:1]]


def _ids_in(text: str) -> list[int]:
    if isinstance(listed := parse_literal(text), list):
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
