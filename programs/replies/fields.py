"""Reads the output fields of a reply, in the requested form or in another one that models write.

Forms: markers (`[[ ## answer ## ]]`), a JSON object, tags, labels (`Answer: …`) that begin the reply. Text around them,
code fences, another order of the fields and missing closing marks are tolerated. `[[ ## completed ## ]]` after a
complete set of markers ends the reply, since small models go on to repeat the prompt. If fields occur more than once
before it, the last complete set counts. Inputs cannot forge a field: `forms.without_marks` makes their marks harmless.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import dspy
from dspy.adapters.utils import apply_output_field_defaults, parse_value
from pydantic import BeforeValidator, TypeAdapter
from pydantic.fields import FieldInfo

from knowgap.programs.replies.forms import Raw, found_fields, plain_name, spelled
from knowgap.programs.replies.text import without_surrogates
from knowgap.signatures import values

_THOUGHT = re.compile(
    r"\A\s*<(think|thinking)>(?:(?!<\1>).)*</\1>(?=\s*\S)|<(think|thinking)>.*?</\2>|\A(?:(?!<think).)*?</think(?:ing)?>",
    re.S,
)
"""A model's thoughts. Those that begin a reply extend to the last closing tag, since they may quote others."""
_OPEN_THOUGHT = re.compile(r"<think(?:ing)?>.*", re.S)
"""Thoughts that were cut off, which may name fields. If the reply has its end marker, they were only left unclosed."""
_ITEMS = 200
"""The most items of a list of objects that are read."""
_LONGEST = 50_000
"""The most characters of a reply that are read, half of them from its beginning and half from its end."""
_LONGEST_PLAIN = 10_000
"""The most characters of a reply without any form that is read as a text."""
_REFUSAL = re.compile(r"(?:I'm sorry|I am sorry|sorry,|I can(?:no|')t|I am unable|I'm unable|as an AI)", re.I)
_LEAD = re.compile(
    r"(?:(?:sure|certainly|of course|okay|ok)\b[^.!:\n]*[.!:]\s*)?(?:(?:based on|according to) [^,\n]{1,80},\s*)?"
    r"(?:the|my) (?:final |short |correct |best )?answer(?:\s*:|\s+is\b\s*:?)(?!\s*(?:that|not)\b)\s*",
    re.I,
)
"""The words that introduce an answer."""
_LAST_FENCE = re.compile(r"(?:.*[:`]\s*)?```\w*[ \t]*\n((?:(?!```).)+)\n[ \t]*```", re.S)
"""A reply that ends in a code fence; group 1 is its content."""
_READERS: dict[Any, Any] = {bool: values.read_bool, list[str]: values.read_strings, list[int]: values.read_ids}
_UNREADABLE = (ValueError, TypeError, OverflowError, RecursionError, MemoryError)


def read_fields(signature: type[dspy.Signature], reply: str) -> Raw | None:
    """Read the output fields of a reply.

    Args:
        signature: its output fields with a default may be missing or unreadable, the others may not.
        reply: the whole text.

    Returns:
        The values of all output fields; None if a field without a default cannot be read, no field can be read, or
        nothing is read but an empty answer.
    """
    text = _THOUGHT.sub("", reply) if "</think" in reply else reply
    if "completed ## ]]" not in text:
        text = _OPEN_THOUGHT.sub("", text)
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]}\n{text[-_LONGEST // 2 :]}"
    found = itertools.chain(found_fields(text, signature), [_bare(signature, text)])
    read = (_converted(signature, raw) for raw in found)
    return without_surrogates(next((fields for fields in read if fields is not None), None))


def _converted(signature: type[dspy.Signature], raw: Raw) -> Raw | None:
    fields: Raw = {}
    for name, field in signature.output_fields.items():
        if name in raw:
            try:
                fields[name] = _read_value(raw[name], name, field)
            except _UNREADABLE:
                if field.is_required():
                    return None
    if not fields or fields == {"answer": ""}:  # small models may end a reply at once
        return None
    fields = apply_output_field_defaults(signature, fields)
    return fields if fields.keys() == signature.output_fields.keys() else None


def _read_value(value: Any, name: str, field: FieldInfo) -> Any:
    """Read a value by the reader that the field's type carries, else by its type; DSPy reads other types."""
    kind, own = cast("Any", field.annotation), _own(value, name)
    if isinstance(value, str) and re.match(rf"\W*[{{<\[(]{name}[}}>\])]", value):  # what the prompt shows in its place
        raise ValueError(f"the name of the field: {value!r:.80}")
    if kind is str:
        text = without_lead(values.read_text(own))
        return "" if not field.is_required() and values.says_nothing(text) else text
    if any(isinstance(mark, BeforeValidator) for mark in field.metadata):
        return _reader(Annotated[(kind, *field.metadata)]).validate_python(own)
    if kind in _READERS:
        with suppress(ValueError):
            return _READERS[kind](own)
        return _READERS[kind](value)  # "Relevant: it names the painter."
    if get_origin(kind) is Literal:
        said = values.unwrap(str(value)).casefold()
        value = next((option for option in get_args(kind) if said.startswith(str(option).casefold())), said)
    if get_origin(kind) is list:
        return _read_items(values.read_list(own), get_args(kind)[0])
    if getattr(kind, "__name__", "") == "NoulEvidence":  # DSPy's form of a boolean with a probability
        with suppress(ValueError):
            return parse_value({"noul": values.read_fraction(value)}, kind)
        return parse_value({"noul": float(values.read_bool(value))}, kind)
    return parse_value(values.unwrap(value) if isinstance(value, str) else value, kind)


def _own(value: Any, name: str) -> Any:
    """The value without the name of its field, which some models repeat as a label or a key."""
    if isinstance(value, str) and (label := re.match(rf"\W*{spelled([name])}\W*:\W*(?=\S)", value, re.I)):
        parsed = values.parse_literal(values.unwrap(value))
        value = values.unwrap(value[label.end() :]) if parsed is None else parsed
    if isinstance(value, dict):
        value = next((item for key, item in value.items() if plain_name(key) == plain_name(name)), value)
    return value


def without_lead(text: str) -> str:
    """A text without the words that introduce an answer, such as "The answer is", and then the quotes around it."""
    if (match := _LEAD.match(text)) is None:
        return text
    rest = text[match.end() :].strip()
    return values.unwrap(rest.removesuffix(".") if rest.endswith(('".', "”.")) else rest)


@functools.lru_cache(maxsize=256)
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _read_items(items: Sequence[Any], kind: Any) -> list[Any]:
    """Read the items of a list without those that cannot be read; it is an error if none can be."""
    read = list[Any]()
    for item in items[:_ITEMS]:
        with suppress(*_UNREADABLE):
            read.append(_reader(kind).validate_python(item))
    if items and not read:
        raise ValueError(f"no item can be read: {items!r:.80}")
    return read


def _bare(signature: type[dspy.Signature], text: str) -> Raw:
    """The only field without a default, from a reply that names no field: `Yes.`, a JSON list, lines with marks.

    Plain text is accepted if the only output field is a text.
    """
    required = [(name, field.annotation) for name, field in signature.output_fields.items() if field.is_required()]
    if len(required) != 1:
        return {}
    [(name, kind)] = required
    text = values.unwrap(text)
    if kind is str and len(signature.output_fields) == 1:
        text = without_lead(_only_text(text, signature))
        text = fence[1].strip() if (fence := _LAST_FENCE.fullmatch(text)) else text
        formed = re.match(r"[{<]|\[.*\]\Z", text, re.S) or re.search(
            rf"\[\s*\[|#[ \t]*\]|\W{spelled([name])}[\"'”’]\s*:", text, re.I
        )
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        repeats = len(lines) > 3 and len({*lines}) == 1
        unreadable = formed or repeats or len(text) > _LONGEST_PLAIN or _REFUSAL.match(text)
        return {name: text} if re.search(r"\w", text) and not unreadable else {}
    if kind is bool:
        return {name: text} if re.match(r"[*_`\"']*[^\W\d_]+[*_`\"']*(?:[.,;:!]|\Z)", text) else {}
    lines = [line for line in text.splitlines() if line.strip()]
    lines = lines[1:] if lines and lines[0].endswith(":") else lines
    listed = len(lines) > 1 and all(re.match(r"\s*(?:[-*•]|\(?\d{1,2}[.)])\s+\S", line) for line in lines)
    is_list = get_origin(kind) is list and (listed or re.fullmatch(r"\[\s*[\"'“{].*\]", text, re.S))
    return {name: text} if is_list else {}


def _only_text(text: str, signature: type[dspy.Signature]) -> str:
    """The text in an object that holds nothing else, under a name of the model's own."""
    value, known = values.parse_literal(text), {*map(plain_name, signature.fields), "reasoning", "confidence", "error"}
    [(name, item)] = value.items() if isinstance(value, dict) and len(value) == 1 else [("", None)]
    return item if isinstance(item, str) and plain_name(name) not in known else text
