"""The forms of a reply, in which fields are found: markers, a JSON object, tags, labels; and their marks in inputs."""

from __future__ import annotations

import functools
import itertools
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


def found_fields(text: str, signature: type[dspy.Signature]) -> Iterator[Raw]:
    """The fields of a reply by name, in each form that it has; the last complete set of them first.

    Labels (`Answer: …`) count if the reply begins with one: within a text, they may be quoted.
    """
    names = tuple(signature.output_fields)
    text = _up_to_completed(text, names)
    yield from _sections(text, _marker(names), signature)
    yield from _objects(text, signature)
    yield from _sections(text, _tag(names), signature)
    label, bare = _label(tuple(signature.fields)), text.strip().removeprefix("```").lstrip()
    if label.match(bare):
        yield from _sections(bare, label, signature)


def _sections(text: str, heading: re.Pattern[str], signature: type[dspy.Signature]) -> Iterator[Raw]:
    """The text below each heading, from the last run of all the fields that occur, in the order of the signature.

    If there is no such run, the last text of each field.
    """
    found = list(heading.finditer(text))
    by_key = {plain_name(name): name for name in signature.output_fields}
    ends = [*(match.start() for match in found[1:]), len(text)]
    sections = [
        (by_key.get(plain_name(match[1])), text[match.end() : end].strip())
        for match, end in zip(found, ends, strict=False)
    ]
    last = {name: value for name, value in sections if name}
    wanted, chosen = [name for name in signature.output_fields if name in last], Raw()
    for name, value in reversed(sections):
        if wanted and name == wanted[-1]:
            chosen[wanted.pop()] = value
    if last:
        yield last if wanted else chosen


def _up_to_completed(text: str, names: tuple[str, ...]) -> str:
    """A reply up to the first `[[ ## completed ## ]]` behind a field: small models go on to repeat the prompt."""
    ends = (mark for _, mark in itertools.pairwise(_marker(names).finditer(text)) if plain_name(mark[1]) == "completed")
    return text[: end.start()] if (end := next(ends, None)) else text


def _objects(text: str, signature: type[dspy.Signature]) -> Iterator[Raw]:
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
    named = [raw for value in found if (raw := _named(value, signature))]
    if not named and "{" in text:
        value = parse_literal(text[text.find("{") :].rstrip("`\n "))
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


@functools.lru_cache(maxsize=1024)
def _marker(names: tuple[str, ...]) -> re.Pattern[str]:
    """`[[ ## answer ## ]]`, also without the signs or spaces, and the marker at the end; group 1 is the name."""
    named = spelled([*names, "completed"])
    return re.compile(rf"[*`]{{0,3}}\[\[[ \t#]*({named})[ \t#]*(?:\]{{1,2}}|$)[*`]*:?", re.I | re.M)


@functools.lru_cache(maxsize=1024)
def _tag(names: tuple[str, ...]) -> re.Pattern[str]:
    """`<answer>`, or the end of a tag; group 1 is the name, or None at the end."""
    return re.compile(rf"<({spelled(names)})>|</(?:{spelled(names)})>", re.I)


@functools.lru_cache(maxsize=1024)
def _label(names: tuple[str, ...]) -> re.Pattern[str]:
    """`Answer:` at the beginning of a line, also in bold, in a list or as a heading; group 1 is the name."""
    mark = r"[*_`\"']{0,3}"
    return re.compile(
        rf"^[ \t>#]*(?:[-*•][ \t]+)?{mark}({spelled(names)}){mark}[ \t]*(?::[*_]{{0,3}}|#*[ \t]*$)", re.I | re.M
    )


@functools.lru_cache(maxsize=1024)
def _mark(names: tuple[str, ...]) -> re.Pattern[str]:
    """The first character of a marker or tag, and the quotation mark behind the key of an object."""
    named = spelled(names)
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
    mark = _mark(tuple(signature.fields))
    return map_texts(value, lambda text: mark.sub(lambda f: f"{f[0]} " if f[0] in "[<" else f"{f[0]} (quoted)", text))


def spelled(names: Sequence[str]) -> str:
    """A pattern for any of these names, whose words may be joined or stand apart."""
    return "|".join(r"[ _-]?".join(map(re.escape, name.split("_"))) for name in sorted(names, key=len, reverse=True))


def plain_name(name: Any) -> str:
    """A name in lower case, without spaces and punctuation."""
    return re.sub(r"[\W_]", "", str(name)).casefold()
