"""Reads the output fields of a reply: the form that it has, then each value by the reader of the field's type.

Forms: markers (`[[ ## answer ## ]]`), a JSON object, tags, labels (`Answer: …`) that begin the reply, a value alone.
Text around them, code fences, another order of the fields and missing closing marks are tolerated. If fields occur more
than once, the last complete set before `[[ ## completed ## ]]` counts: small models go on to repeat the prompt. Inputs
cannot forge a field, since `without_marks` makes their marks harmless.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Any, get_args, get_origin

import dspy
from dspy.adapters.utils import apply_output_field_defaults, parse_value
from pydantic import BeforeValidator, TypeAdapter
from pydantic.fields import FieldInfo

from knowgap.programs.replies.text import map_texts, without_surrogates
from knowgap.signatures import values

Raw = dict[str, Any]
"""Values of the fields as the reply has them: text, or decoded JSON."""

PLACEHOLDER = "…"
"""What a prompt shows in the place of a text."""
_THOUGHT = re.compile(r"\A.*</think(?:ing)?>(?=\s*\S)", re.S)
"""A model's thoughts, which extend to the last closing tag, since they may quote others."""
_OPEN_THOUGHT = re.compile(r"<think(?:ing)?>.*", re.S)
"""Thoughts that were cut off, which may name fields. If the reply has its end marker, they were only left unclosed."""
_OBJECTS, _ITEMS = 100, 200
"""The most opening braces at which a JSON object is looked for, and the most items of a list of objects."""
_LEAD = re.compile(
    r"(?:(?:the|my) )?(?:final |short |correct |best )?answer(?:\s*:|\s+is\b\s*:?)(?!\s*(?:that|not)\b)\s*", re.I
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
    read = (_converted(signature, raw) for raw in _found(text, signature))
    return without_surrogates(next((fields for fields in read if fields is not None), None))


# The forms of a reply


def _found(text: str, signature: type[dspy.Signature]) -> Iterator[Raw]:
    """The fields of a reply by name, in each form that it has."""
    marker, tag, label = _headings(signature)
    yield from _sections(text, marker, signature)
    yield from _objects(text, signature)
    yield from _sections(text, tag, signature)
    bare = text.strip().removeprefix("```").lstrip()
    if label.match(bare):  # within a text, labels may be quoted
        yield from _sections(bare, label, signature)
    yield _alone(text, signature)


def _headings(signature: type[dspy.Signature]) -> tuple[re.Pattern[str], ...]:
    """The patterns of a marker, of a tag or its end, and of a label; group 1 is the name of the field, if it has one.

    Markers may lack their signs or spaces, but for those of the prompt's own fields, with which small models go on.
    Labels stand at the beginning of a line, in bold, in a list or as a heading.
    """
    named, mark = _spelled(signature.output_fields), r"[*_`\"']{0,3}"
    asked = rf"(?<=# )(?:{_spelled(signature.input_fields)})"
    labelled = rf"(?:[-*•][ \t]+)?{mark}({_spelled(signature.fields)}){mark}"
    return (
        re.compile(rf"[*`]{{0,3}}\[\[[ \t#]*({named}|completed|{asked})[ \t#]*(?:\]{{1,2}}|$)[*`]*:?", re.I | re.M),
        re.compile(rf"<({named})>|</(?:{named})>", re.I),
        re.compile(rf"^[ \t>#]*{labelled}[ \t]*(?::[*_]{{0,3}}|#*[ \t]*$)", re.I | re.M),
    )


def _sections(text: str, heading: re.Pattern[str], signature: type[dspy.Signature]) -> Iterator[Raw]:
    """The text below each heading, from the last run of all the fields that occur, in the order of the signature.

    If there is no such run, the last text of each field.
    """
    by_key, sections = _by_key(signature), list[tuple[str | None, str]]()
    _, *parts = heading.split(text)
    for name, value in zip(parts[::2], parts[1::2], strict=True):
        if _plain_name(name) == "completed" and sections:
            break
        sections.append((by_key.get(_plain_name(name)), value.strip()))
    last = {name: value for name, value in sections if name}
    wanted, chosen = [name for name in signature.output_fields if name in last], Raw()
    for name, value in reversed(sections):
        if wanted and name == wanted[-1]:
            chosen[wanted.pop()] = value
    if last:
        yield last if wanted else chosen


def _objects(text: str, signature: type[dspy.Signature]) -> Iterator[Raw]:
    """The JSON objects with any of the fields, the last one first; without any, a damaged one is repaired."""
    found, decoder, end = list[Any](), json.JSONDecoder(strict=False), 0
    braces = (brace.start() for brace in re.finditer("{", text))
    for begin in itertools.islice(braces, _OBJECTS):
        if begin >= end:
            with suppress(ValueError, RecursionError):
                value, end = decoder.raw_decode(text, begin)
                found.append(value)
    named = [raw for value in found if (raw := _named(value, signature))]
    if not named and "{" in text:
        repaired = values.parse_literal(text[text.find("{") :].rstrip("`\n "))
        named = [_named(each, signature) for each in (repaired if isinstance(repaired, list) else [repaired])]
    yield from filter(None, reversed(named))


def _named(value: Any, signature: type[dspy.Signature]) -> Raw:
    """The fields of an object by their names in the signature, or of the only object in it that has some.

    If several in it have fields, some may be quotations.
    """
    if not isinstance(value, dict):
        return {}
    by_key = _by_key(signature)
    own = {by_key[key]: item for name, item in value.items() if (key := _plain_name(name)) in by_key}
    inner = [raw for item in [*value.values()][:9] if not own and (raw := _named(item, signature))]
    return inner[0] if len(inner) == 1 else own


def _by_key(signature: type[dspy.Signature]) -> dict[str, str]:
    return {_plain_name(name): name for name in signature.output_fields}


def _alone(text: str, signature: type[dspy.Signature]) -> Raw:
    """The only output field, if it is a text: the whole reply, or the only text in an object under another name."""
    (name, field), *others = signature.output_fields.items()
    if others or field.annotation is not str:
        return {}
    text = values.unwrap(text)
    value, known = values.parse_literal(text), {*map(_plain_name, signature.fields), "reasoning", "confidence", "error"}
    [(key, item)] = value.items() if isinstance(value, dict) and len(value) == 1 else [("", None)]
    text = _without_lead(item if isinstance(item, str) and _plain_name(key) not in known else text)
    text = fence[1].strip() if (fence := _LAST_FENCE.fullmatch(text)) else text
    formed = re.match(r"[{<]|\[.*\]\Z", text, re.S) or re.search(
        rf"\[\s*\[|#[ \t]*\]|\W{_spelled([name])}[\"'”’]\s*:", text, re.I
    )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    repeats = len(lines) > 3 and len({*lines}) == 1
    return {} if formed or repeats or not re.search(r"\w", text) else {name: text}


# The values of fields


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
    kind: Any = field.annotation
    if isinstance(value, str) and (value == PLACEHOLDER or re.match(rf"\W*[{{<\[(]{name}[}}>\])]", value)):
        raise ValueError(f"what the prompt shows in the place of a value: {value!r:.80}")
    if kind is str:
        text = _without_lead(values.read_text(value))
        return "" if not field.is_required() and values.says_nothing(text) else text
    if any(isinstance(mark, BeforeValidator) for mark in field.metadata):
        carrying: Any = Annotated[(kind, *field.metadata)]
        return TypeAdapter(carrying).validate_python(value)
    if kind in _READERS:
        return _READERS[kind](value)
    if get_origin(kind) is list:
        return _read_items(values.read_list(value), get_args(kind)[0])
    if getattr(kind, "__name__", "") == "NoulEvidence":  # DSPy's form of a boolean with a probability
        with suppress(ValueError):
            return parse_value({"noul": values.read_fraction(value)}, kind)
        return parse_value({"noul": float(values.read_bool(value))}, kind)
    return parse_value(values.unwrap(value) if isinstance(value, str) else value, kind)


def _without_lead(text: str) -> str:
    """A text without the words that introduce an answer, such as "The answer is", and then the quotes around it."""
    if (match := _LEAD.match(text)) is None:
        return text
    rest = text[match.end() :].strip()
    return values.unwrap(rest.removesuffix(".") if rest.endswith(('".', "”.")) else rest)


def _read_items(items: Sequence[Any], kind: Any) -> list[Any]:
    """Read the items of a list without those that cannot be read; it is an error if none can be."""
    read, reader = list[Any](), TypeAdapter(kind)
    for item in items[:_ITEMS]:
        with suppress(*_UNREADABLE):
            read.append(reader.validate_python(item))
    if items and not read:
        raise ValueError(f"no item can be read: {items!r:.80}")
    return read


# The marks of fields in inputs


def without_marks(value: Any, signature: type[dspy.Signature]) -> Any:
    """Write the marks of fields in an input's texts so that they are none: `[ [ ## answer ## ]]`, `< answer>`.

    A passage that holds `[[ ## answer ## ]]`, `<answer>` or `{"answer": …}` could otherwise end a field of a reply that
    quotes it, and begin another. Keys become `"answer (quoted)"`. Tags and keys with other names stay.
    """
    named = _spelled(signature.fields)
    mark = re.compile(  # the first character of a marker or tag, or the key of an object
        rf"\[(?=\[[ \t]*(?:#|(?:{named}|completed)\b))|<(?=/?\s*(?:{named}|think(?:ing)?)\b)"
        rf"|(?<=[\"'“‘])(?:{named})(?=\\*[\"'”’]\s*:)",
        re.I,
    )
    return map_texts(value, lambda text: mark.sub(lambda f: f"{f[0]} " if f[0] in "[<" else f"{f[0]} (quoted)", text))


def _spelled(names: Iterable[str]) -> str:
    """A pattern for any of these names, whose words may be joined or stand apart."""
    return "|".join(r"[ _-]?".join(map(re.escape, name.split("_"))) for name in sorted(names, key=len, reverse=True))


def _plain_name(name: Any) -> str:
    """A name in lower case, without spaces and punctuation."""
    return re.sub(r"[\W_]", "", str(name)).casefold()
