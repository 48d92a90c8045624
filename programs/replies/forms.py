"""The forms of a reply, in which fields are found: markers, a JSON object, tags, labels; and their marks in inputs.

A finder yields the fields of a reply by name, as the reply has them: the last complete set of them first.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import dspy

from knowgap.programs.replies.text import map_texts
from knowgap.signatures.values import parse_literal

Raw = dict[str, Any]
"""Values of the fields as the reply has them: text, or decoded JSON."""
_OBJECTS = 100
"""The most opening braces at which a JSON object is looked for."""
_LONGEST_TEXT = 10_000
"""The most characters in a tag."""


def marked(text: str, signature: type[dspy.Signature]) -> Iterator[Raw]:
    """Fields by markers: `[[ ## answer ## ]]`."""
    yield from _sections(text, _marker(tuple(signature.output_fields)), signature)


def labelled(text: str, signature: type[dspy.Signature]) -> Iterator[Raw]:
    """Fields by labels (`Answer: …`), if the reply begins with one: within a text, they may be quoted."""
    heading = _label(tuple(signature.fields))
    text = text.strip().removeprefix("```").lstrip()
    if heading.match(text):
        yield from _sections(text, heading, signature)


def _sections(text: str, heading: re.Pattern[str], signature: type[dspy.Signature]) -> Iterator[Raw]:
    """The text below each heading, from the last complete set of them."""
    found = list(heading.finditer(text))
    by_key = {plain_name(name): name for name in signature.output_fields}
    ends = [*(match.start() for match in found[1:]), len(text)]
    sections = [
        (by_key.get(plain_name(match[1])), text[match.end() : end]) for match, end in zip(found, ends, strict=False)
    ]
    if raw := _last_set([(name, value.strip()) for name, value in sections if name], signature):
        yield raw


def _last_set(sections: Sequence[tuple[str, Any]], signature: type[dspy.Signature]) -> Raw:
    """The last run of all the fields that occur, in the order of the signature; else the last value of each."""
    present, chosen = {name for name, _ in sections}, Raw()
    wanted = [name for name in signature.output_fields if name in present]
    for name, value in reversed(sections):
        if wanted and name == wanted[-1]:
            chosen[wanted.pop()] = value
    return dict(sections) if wanted else chosen


def up_to_completed(signature: type[dspy.Signature], text: str) -> str:
    """A reply up to the first `[[ ## completed ## ]]` that follows all fields without a default."""
    fields = signature.output_fields
    missing = {plain_name(name) for name, field in fields.items() if field.is_required()} or {
        plain_name(next(iter(fields), ""))
    }
    for mark in _marker(tuple(fields)).finditer(text) if "completed" in text.casefold() else ():
        if not missing and plain_name(mark[1]) == "completed":
            return text[: mark.start()]
        missing.discard(plain_name(mark[1]))
    return text


def objects(text: str, signature: type[dspy.Signature]) -> Iterator[Raw]:
    """The JSON objects with any of the fields, the last one first; without any, a damaged one is repaired."""
    found, decoder, end = list[Any](), json.JSONDecoder(strict=False), 0
    for _ in range(_OBJECTS):
        if (begin := text.find("{", end)) < 0:
            break
        try:
            value, end = decoder.raw_decode(text, begin)
            found.append(value)
        except (ValueError, RecursionError):
            end = begin + 1
    start = text.find("{")
    named = [raw for value in found if (raw := _named(value, signature))]
    if not named and start >= 0 and (value := parse_literal(text[start:].rstrip("`\n "))) is not None:
        named = [_named(item, signature) for item in (value if isinstance(value, list) else [value])]
    yield from filter(None, reversed(named))


def _named(value: Any, signature: type[dspy.Signature], depth: int = 3) -> Raw:
    """The fields of an object by their names in the signature; the object may be nested in up to `depth` others.

    If several nested objects have different values, for example because one is a quotation, none is read.
    """
    if not isinstance(value, dict) or depth < 0:
        return {}
    by_key = {plain_name(name): name for name in signature.output_fields}
    raw = {by_key[key]: item for name, item in value.items() if (key := plain_name(name)) in by_key}
    held = [inner for item in [*value.values()][:9] if not raw and (inner := _named(item, signature, depth - 1))]
    return held[0] if held and all(inner == held[0] for inner in held) else raw


def tagged(text: str, signature: type[dspy.Signature]) -> Iterator[Raw]:
    """The texts in tags: `<answer>Wick</answer>`."""
    by_key = {plain_name(name): name for name in signature.output_fields}
    found = re.finditer(rf"<({spelled([*signature.output_fields])})>(.{{0,{_LONGEST_TEXT}}}?)</\1>", text, re.S | re.I)
    if raw := _last_set([(by_key[plain_name(match[1])], match[2].strip()) for match in found], signature):
        yield raw


@functools.lru_cache(maxsize=1024)
def _marker(names: tuple[str, ...]) -> re.Pattern[str]:
    """`[[ ## answer ## ]]`, also without the signs or spaces, and the marker at the end; group 1 is the name."""
    return re.compile(rf"[*`]*\[\[[ \t#]*({spelled([*names, 'completed'])})[ \t#]*(?:\]{{1,2}}|$)[*`]*:?", re.I | re.M)


@functools.lru_cache(maxsize=1024)
def _label(names: tuple[str, ...]) -> re.Pattern[str]:
    """`Answer:` at the beginning of a line, also in bold, in a list or as a heading; group 1 is the name."""
    mark = r"[*_`\"']{0,3}"
    return re.compile(
        rf"^[ \t>#]*(?:[-*•][ \t]+)?{mark}({spelled(names)}){mark}[ \t]*(?::[*_]{{0,3}}|#*[ \t]*$)", re.I | re.M
    )


@functools.lru_cache(maxsize=1024)
def _mark(signature: type[dspy.Signature]) -> re.Pattern[str]:
    """The first character of a marker or tag, and the quotation mark behind the key of an object."""
    named = spelled([*signature.fields])
    return re.compile(
        rf"\[(?=\[[ \t]*(?:#|(?:{named}|completed)\b))|<(?=/?\s*(?:{named}|think(?:ing)?)\b)"
        rf"|(?<=[\"'“‘])(?:{named})(?=\\*[\"'”’]\s*:)",
        re.I,
    )


def without_marks(value: Any, signature: type[dspy.Signature]) -> Any:
    """Write the marks of fields in an input's texts so that they are none: `[ [ ## answer ## ]]`, `< answer>`.

    A passage that holds `[[ ## answer ## ]]`, `<answer>` or `{"answer": …}` could otherwise end a field of a reply that
    quotes it, and begin another. Keys become `"answer (quoted)"`. Tags and keys with other names stay.
    """
    hashable: Any = signature  # type checkers do not know that the class is hashable
    mark = _mark(hashable)

    return map_texts(value, lambda text: mark.sub(lambda f: f"{f[0]} " if f[0] in "[<" else f"{f[0]} (quoted)", text))


def spelled(names: Sequence[str]) -> str:
    """A pattern for any of these names, whose words may be joined or stand apart."""
    return "|".join(r"[ _-]?".join(map(re.escape, name.split("_"))) for name in sorted(names, key=len, reverse=True))


def plain_name(name: Any) -> str:
    """A name in lower case, without spaces and punctuation."""
    return re.sub(r"[\W_]", "", str(name)).casefold()
