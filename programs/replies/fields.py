"""Finds the output fields in a reply, in the requested form or in another one that models write.

Forms: markers (`[[ ## answer ## ]]`), a JSON object, XML tags, labels (`Answer: …`). Text around them, code fences,
another order of the fields and missing closing marks are tolerated. `[[ ## completed ## ]]` after a complete set of
markers ends the reply, since small models go on to repeat the prompt. If fields occur more than once before it, the
last complete set counts. Fields that the reply quotes from a shown passage are removed first.
"""

from __future__ import annotations

import html
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, get_args, get_origin

import dspy
from dspy.adapters.utils import apply_output_field_defaults, parse_value
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from knowgap.programs.replies import forms
from knowgap.programs.replies.echoes import read_answer, repeats_description, without_preamble
from knowgap.programs.replies.quotations import shows_thoughts, without_quotations
from knowgap.signatures import values

Form = Literal["chat", "json", "xml"]
Raw = dict[str, Any]
"""Values of the fields as the reply has them: text, or decoded JSON."""

_THOUGHT = re.compile(
    r"\A\s*<(think|thinking|reasoning_content)>(?:(?!<\1>).)*</\1>(?=\s*\S)"
    r"|<(think|thinking|reasoning_content)>.*?</\2>|\A(?:(?!<think).)*?</think(?:ing)?>",
    re.S,
)
"""A model's thoughts. Those that begin a reply extend to the last closing tag, since they may quote others."""
_OPEN_THOUGHT = re.compile(r"<think(?:ing)?>.*", re.S)
"""Thoughts that were cut off, which may name fields. If the reply has its end marker, they were only left unclosed."""
_OBJECTS = 100
"""The most opening braces in a reply at which a JSON object is looked for."""
_LONGEST = 50_000
"""The most characters of a reply that are read, half of them from its beginning and half from its end."""
_LONGEST_PLAIN = 10_000
"""The most characters of a reply without any form that is read as a text."""
_REFUSAL = re.compile(r"(?:I'm sorry|I am sorry|sorry,|I can(?:no|')t|I am unable|I'm unable|as an AI)", re.I)
_BOXED = re.compile(rf"\[\[\s*([^\[\]#]*\w[^\[\]#]*?)\s*\]\]\s*(?:{forms.marker(()).pattern}\s*)?", re.I)
"""A reply that has the answer in the place of a marker's name."""
_ITEMS = 200
"""The most items of a list of objects that are read."""
_REPEATED = 4
"""A reply that is at least this many times the same line is not read."""
_BESIDE = ("reasoning", "rationale", "explanation", "thought", "thoughts", "confidence", "error", "query")
"""Names under which a model writes something other than an answer."""
_REPAIRED = 2_000
"""The most characters of a text of another type that DSPy reads: the time grows at least with their square."""
_UNREADABLE = (ValueError, TypeError, OverflowError, RecursionError, MemoryError)


def read_fields(signature: type[dspy.Signature], reply: str, form: Form = "chat") -> Raw | None:
    """Read the output fields of a reply.

    Args:
        signature: its output fields with a default may be missing or unreadable, the others may not.
        reply: the whole text.
        form: the requested form, which is looked for first.

    Returns:
        The values of all output fields; None if a field without a default cannot be read, no field can be read, or
        nothing is read but an empty answer.
    """
    names = tuple(signature.output_fields)
    whole = _without_thoughts(reply)
    # Where a passage ends the thoughts in a quotation, all that is left may be the rest of that quotation.
    text = without_quotations(whole, names, form, alone=whole is reply or not shows_thoughts())
    if (fields := _converted(signature, _whole_object(text, signature))) is not None:
        return fields
    if "completed ## ]]" not in text:
        text = _OPEN_THOUGHT.sub("", text)
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]}\n{text[-_LONGEST // 2 :]}"
    text = _up_to_completed(signature, text, names)
    finders = {"chat": _marked, "json": _objects, "xml": _tagged}
    finders["label"] = lambda text, names: _sections(text, names, forms.label(names))
    for finder in (finders.pop(form), *finders.values()):
        for raw in finder(text, names):
            if (fields := _converted(signature, raw)) is not None:
                return fields
    if text != whole and text.rstrip().endswith(":"):  # the stop text has cut it off within a quotation
        return None
    return _converted(signature, _bare(signature, text))


def _without_thoughts(reply: str) -> str:
    """A reply without the model's thoughts. If a shown text has their tags, only the first ones are removed."""
    if "</think" not in reply:
        return reply
    if shows_thoughts():
        return re.sub(r"\A\s*<(think|thinking|reasoning_content)>.*</\1>", "", reply, flags=re.S)
    return _THOUGHT.sub("", reply)


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
    """Read a value by the type of its field; DSPy reads types that knowgap's signatures do not use."""
    kind = field.annotation
    bounds = bounds_of(field)
    text = values.read_text(value, name, optional=not field.is_required()) if kind is str else value
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    if isinstance(text, str) and repeats_description(text, name, str(extra.get("desc", ""))):
        raise ValueError(f"the description of the field: {text!r:.80}")
    if kind is str:
        return read_answer(text) if name == "answer" else text
    if kind is bool:
        return values.read_bool(value, name)
    if kind is int and len(bounds) == 2:
        return values.read_scale(value, *bounds)
    if kind is float and bounds == [0, 1]:
        return values.read_fraction(value)
    if kind == list[str]:
        return values.read_strings(value)
    if kind == list[int]:
        return values.read_ids(value)
    if get_origin(kind) is Literal:
        return values.read_option(value, get_args(kind))
    if get_origin(kind) is list:
        return _read_items(values.read_list(value), get_args(kind)[0])
    if getattr(kind, "__name__", "") == "NoulEvidence":  # DSPy's form of a boolean with a probability
        return parse_value({"noul": _probability(value)}, kind)
    if isinstance(value, str):
        text = values.unwrap(value)
        value = values.parse_literal(text, repair=True)
        value = text[:_REPAIRED] if value is None else value
    return parse_value(value, kind)


def _probability(value: Any) -> float:
    try:
        return values.read_fraction(value)
    except ValueError:
        return float(values.read_bool(value))


def bounds_of(field: FieldInfo) -> list[Any]:
    """The lowest and the highest value that a field permits, as far as they are given."""
    return [getattr(mark, side) for side in ("ge", "le") for mark in field.metadata if hasattr(mark, side)]


def _read_items(items: Sequence[Any], kind: Any) -> list[Any]:
    """Read the items of a list without those that cannot be read; it is an error if none can be."""
    read, adapter = [], TypeAdapter(kind)
    for item in items[:_ITEMS]:
        with suppress(*_UNREADABLE):
            read.append(adapter.validate_python(item))
    if items and not read:
        raise ValueError(f"no item can be read: {items!r:.80}")
    return read


def _marked(text: str, names: tuple[str, ...]) -> Iterator[Raw]:
    """Fields by markers at the start of a line, unless counting the other markers as well gives more fields."""
    anywhere = [*_sections(text, names, forms.marker(names))]
    in_lines = [*_sections(text, names, forms.marker(names, at_line_start=True))]
    if max(map(len, in_lines), default=0) >= max(map(len, anywhere), default=0):
        yield from in_lines
    yield from anywhere


def _up_to_completed(signature: type[dspy.Signature], text: str, names: tuple[str, ...]) -> str:
    """A reply up to the first `[[ ## completed ## ]]` that follows all fields without a default.

    Markers count at the start of a line; the one at the end also counts at the end of a line.
    """
    if "completed" not in text:
        return text
    missing = {name for name, field in signature.output_fields.items() if field.is_required()} or {*names[:1]}
    by_key = {forms.plain_name(name): name for name in names}
    for mark in forms.marker(names).finditer(text):
        before, after = text[: mark.start()].rpartition("\n")[2], text[mark.end() :].partition("\n")[0]
        begins = not before.strip(" \t>*`")
        if (name := by_key.get(forms.plain_name(mark[1]))) is not None:
            missing -= {name} if begins else set()
        elif not missing and (begins or not after.strip()):
            return text[: mark.start() - len(before) if begins else mark.start()]
    return text


def _sections(text: str, names: tuple[str, ...], heading: re.Pattern[str]) -> Iterator[Raw]:
    """The text below each heading, from the last complete set of them."""
    found = list(heading.finditer(text))
    if not found:
        return
    ends = [*(match.start() for match in found[1:]), len(text)]
    by_key = {forms.plain_name(name): name for name in names}
    sections = [
        (by_key.get(forms.plain_name(match[1])), text[match.end() : end].strip())
        for match, end in zip(found, ends, strict=True)
    ]
    if raw := _last_set([(name, value) for name, value in sections if name], names):
        yield raw


def _last_set(sections: Sequence[tuple[str, Any]], names: Sequence[str]) -> Raw:
    """The last run of all the fields that occur, in the order of the signature; else the last value of each."""
    present = {name for name, _ in sections}
    chosen: Raw = {}
    wanted = [name for name in names if name in present]
    for name, value in reversed(sections):
        if wanted and name == wanted[-1]:
            chosen[wanted.pop()] = value
    return dict(sections) if wanted else chosen


def _objects(text: str, names: tuple[str, ...]) -> Iterator[Raw]:
    """The JSON objects with any of the fields, the last one first; a damaged one is repaired.

    An object with all the fields at the start of a reply comes before later ones. If a reply is one object whose texts
    quote other objects without escaping them, the quoted ones are not read.
    """
    objects = [*forms.json_objects(text, _OBJECTS)]
    found = [value for value, _, _ in objects]
    if re.match(r"\s*(?:```\w*\s*)?\{", text):
        whole = bool(objects) and not _key_places(text[objects[-1][2] :], names[-1])
        first = _named(found[0], names) if whole else {}
        if not whole or (len(found) > 1 and first.keys() < {*names}):
            first = _between_keys(text, names)
        yield from filter(None, [first])
    if not found and re.search(r"[{,]\s*“", text):
        text = text.translate(values.STRAIGHT_QUOTES)
        found = [value for value, _, _ in forms.json_objects(text, _OBJECTS)]
    yield from filter(None, (_named(value, names) for value in reversed(found)))
    start = text.find("{")
    value = values.repair_json(text[start:]) if start >= 0 else None
    if value is not None:
        yield from filter(None, (_named(item, names) for item in (value if isinstance(value, list) else [value])[::-1]))


def _whole_object(text: str, signature: type[dspy.Signature]) -> Raw:
    """The fields of a reply that is one JSON object with all required fields, whose texts may quote other forms."""

    def without_duplicates(pairs: list[tuple[str, Any]]) -> Raw:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key stands twice")
        return dict(pairs)

    inner = re.fullmatch(r"(?:```\w*)?\s*(\{.*\})\s*(?:```)?", text.strip(), re.S)
    try:
        value = json.loads(inner[1], strict=False, object_pairs_hook=without_duplicates) if inner else None
    except (ValueError, RecursionError):
        return {}
    raw = _named(value, tuple(signature.output_fields), 0)
    return raw if all(name in raw or not field.is_required() for name, field in signature.output_fields.items()) else {}


def _between_keys(text: str, names: tuple[str, ...]) -> Raw:
    """The values of an object with all the fields: the text between the last occurrences of their keys."""
    keys = {name: _key_places(text, name) for name in names}
    if not all(keys.values()):
        return {}
    places = sorted((found[-1].start(), found[-1].end(), name) for name, found in keys.items())
    end = text.rfind("}")
    ends = [*(start for start, _, _ in places[1:]), end if end > places[-1][1] else len(text)]
    raw: Raw = {}
    for (_, begin, name), until in zip(places, ends, strict=True):
        written = text[begin:until].strip().removesuffix(",").rstrip()
        try:
            raw[name] = json.loads(written, strict=False)
        except (ValueError, RecursionError):
            raw[name] = written.removeprefix('"').removesuffix('"')
    return raw


def _key_places(text: str, name: str) -> list[re.Match[str]]:
    return list(re.finditer(rf'"{re.escape(name)}"\s*:', text))


def _named(value: Any, names: Sequence[str], depth: int = 3) -> Raw:
    """The fields of an object by their names in the signature; the object may be nested in up to `depth` others.

    If several nested objects have different values, for example because one is a quotation, none is read.
    """
    if not isinstance(value, dict) or depth < 0:
        return {}
    by_key = {forms.plain_name(name): name for name in names}
    raw = {
        by_key[forms.plain_name(str(key))]: item for key, item in value.items() if forms.plain_name(str(key)) in by_key
    }
    held = [inner for item in list(value.values())[:9] if not raw and (inner := _named(item, names, depth - 1))]
    return held[0] if held and all(inner == held[0] for inner in held) else raw


def _tagged(text: str, names: tuple[str, ...]) -> Iterator[Raw]:
    """The contents of XML tags; a tag that is not closed ends where the next field begins."""
    by_key = {forms.plain_name(name): name for name in names}
    tags = list(forms.tag(names).finditer(text))
    last_closing = {by_key[forms.plain_name(tag[2])]: tag.start() for tag in tags if tag[1]}
    sections: list[tuple[str, Any]] = []
    opened, begin = "", 0
    for tag in tags:
        name = by_key[forms.plain_name(tag[2])]
        closes = tag[1] and name == opened
        if closes or (opened and not tag[1] and last_closing.get(opened, -1) < tag.start()):
            sections.append((opened, _xml_value(text[begin : tag.start()])))
            opened = ""
        if not tag[1] and not opened:
            opened, begin = name, tag.end()
            if tag[0].endswith("/>"):
                sections.append((name, ""))
                opened = ""
    if opened:
        sections.append((opened, _xml_value(text[begin:])))
    if raw := _last_set(sections, names):
        yield raw


def _xml_value(inner: str) -> Any:
    if "<" not in inner:
        return html.unescape(inner.strip())
    spelled = re.sub(r"&(?!\w+;|#)", "&amp;", inner)
    with suppress(ET.ParseError, ValueError):  # the latter for lone surrogates
        return _element_value(ET.fromstring(f"<value>{spelled}</value>"))
    return html.unescape(inner.strip())


def _element_value(element: ET.Element) -> Any:
    children = list(element)
    tags = [child.tag for child in children]
    if not children or (element.text or "").strip():
        return "".join(element.itertext()).strip()
    if len(set(tags)) == 1 and (tags[0] == "item" or len(tags) > 1):
        return [_element_value(child) for child in children]
    return {child.tag: _element_value(child) for child in children}


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
        text = _only_text(text, {*signature.input_fields, *_BESIDE})
        boxed = _BOXED.fullmatch(text)
        if boxed and forms.plain_name(boxed[1]) not in map(forms.plain_name, signature.fields):
            return {name: boxed[1]}
        return {name: _last_fence(without_preamble(text))} if _is_plain(text, (name,)) else {}
    if kind is bool:
        return {name: text} if re.match(r"[*_`\"']*[^\W\d_]+[*_`\"']*(?:[.,;:!]|\Z)", text) else {}
    if get_origin(kind) is not list:
        return {}
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].endswith(":"):
        lines = lines[1:]
    listed = len(lines) > 1 and all(re.match(r"\s*(?:[-*•]|\(?\d{1,2}[.)])\s+\S", line) for line in lines)
    return {name: text} if listed or re.fullmatch(r"\[\s*[\"'“{].*\]", text, re.S) else {}


def _is_plain(text: str, names: tuple[str, ...]) -> bool:
    """Whether a reply is text with content, without an attempt at a form; a refusal or one repeated line is not."""
    formed = re.match(r"[{<]", text) or re.fullmatch(r"\[.*\]", text, re.S) or forms.remains(names).search(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) >= _REPEATED and len({*lines}) == 1:
        return False
    return not (formed or len(text) > _LONGEST_PLAIN or _REFUSAL.match(text)) and re.search(r"\w", text) is not None


def _only_text(text: str, others: Collection[str]) -> str:
    """The text in an object that holds nothing else, under a name of the model's own that is not in `others`."""
    value, known = values.parse_literal(text), {forms.plain_name(name) for name in others}
    while isinstance(value, dict) and len(value) == 1:
        [(key, value)] = value.items()
        if forms.plain_name(str(key)) in known:
            return text
        if isinstance(value, str):
            return value
    return text


def _last_fence(text: str) -> str:
    """The content of a code fence that ends a reply after an introductory line or other fences; else the text."""
    found = re.fullmatch(r"(.*)```(?:text|plaintext|output|markdown)?[ \t]*\n((?:(?!```).)+)\n[ \t]*```", text, re.S)
    before = found[1].rstrip() if found else ""
    return found[2].strip() if found and (before.endswith((":", "```")) or not before) else text
