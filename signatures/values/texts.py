"""Read texts: without the code fence, quotes, emphasis or label around them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from knowgap.signatures.values.literals import parse_literal
from knowgap.signatures.values.wordings import NOTHING

__all__ = ["read_text", "says_nothing", "unwrap"]

_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "«": "»", "»": "«", "‘": "’", "「": "」", "‹": "›"}
_FENCE = re.compile(r"\A```(?:[\w+-]*[ \t]*\n)?(?!.*```.*```)(.*?)\n?[ \t]*```\Z", re.S)
_BOXED = re.compile(r"\A\$*\\boxed\{(?:\\text\{([^{}]*)\}|([^{}]*))\}\$*\Z")


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
        closing = _QUOTES.get(bare[:1])
        if closing and len(bare) > 1 and bare[-1] == closing and not {bare[0], closing} & set(bare[1:-1]):
            bare = bare[1:-1].strip()
        if bare == text:
            return bare
        text = bare


def says_nothing(text: str) -> bool:
    """Whether a text stands for an empty field: "None", "N/A", "(nothing)", in several languages."""
    return unwrap(text).strip("()[]{}.!-–—_ ").casefold() in NOTHING | {""}


def read_text(value: Any, name: str = "", *, optional: bool = False) -> str:
    """Read a text.

    Args:
        value: null counts as empty, a boolean as yes or no; the items of a list are joined.
        name: of the field, whose label, tag or key is removed from around the text.
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
    if name:
        text = _without_name(text, name)
    if text.startswith("[") and text.endswith("]") and isinstance(listed := parse_literal(text), list):
        text = read_text(listed) if listed and all(isinstance(item, str) for item in listed) else text
    if text.count("```") % 2:  # the reply was fenced as a whole, and the fence ends with its last field
        text = text.removesuffix("```").rstrip()
    return "" if optional and says_nothing(text) else text


def _without_name(text: str, name: str) -> str:
    """Remove the name of the field, which some models repeat as a label, a tag or a JSON key."""
    spelled = r"[\s_-]*".join(re.escape(part) for part in name.split("_"))
    if tagged := re.fullmatch(rf"<({spelled})>(.*)</\1>", text, re.I | re.S):
        return unwrap(tagged[2])
    if re.match(rf"\{{\s*[\"']{name}[\"']", text) and isinstance(parsed := parse_literal(text), dict):
        return read_text(parsed.get(name))
    if label := re.match(rf"[*_`\"']*{spelled}[*_`\"']*\s*[:：][*_`\s]*(?=\S)", text, re.I):
        return unwrap(text[label.end() :])
    return text
