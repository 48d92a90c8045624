"""The names of fields in a text: markers, XML tags, the keys of JSON objects, and labels; and its JSON objects.

The same patterns serve to read replies, to make inputs harmless, and to find what a reply quotes, so that all three
know the same forms.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

END = "completed"
"""The name in the marker that ends a reply."""


@functools.lru_cache(maxsize=2048)
def marker(names: tuple[str, ...], at_line_start: bool = False) -> re.Pattern[str]:
    """`[[ ## answer ## ]]`, also without the signs or spaces, and the marker at the end; group 1 is the name."""
    start = r"^[ \t>*`]*" if at_line_start else ""
    return re.compile(rf"{start}\[\[[ \t#]*({alternatives((*names, END))})[ \t#]*(?:\]{{1,2}}|$)[*`]*:?", re.I | re.M)


@functools.lru_cache(maxsize=1024)
def label(names: tuple[str, ...]) -> re.Pattern[str]:
    """`Answer:` at the beginning of a line, also in bold, in a list or as a heading; group 1 is the name."""
    return re.compile(
        rf"^[ \t>#]*(?:[-*•][ \t]+|\d[.)][ \t]+)?[*_`\"']{{0,3}}({alternatives(names)})[*_`\"']{{0,3}}[ \t]*"
        r"(?:\([^)\n]{0,40}\)[ \t]*)?(?:[:=][*_]{0,3}|#*[ \t]*$)",
        re.I | re.M,
    )


@functools.lru_cache(maxsize=1024)
def tag(names: tuple[str, ...]) -> re.Pattern[str]:
    """`<answer>` and `</answer>`; group 1 is the slash, group 2 the name."""
    return re.compile(rf"<(/?)({alternatives(names)})(?:\s[^<>]*)?/?>", re.I)


@functools.lru_cache(maxsize=1024)
def key(names: tuple[str, ...]) -> re.Pattern[str]:
    """`"answer":` of an object, also within a text of another object; group 1 is the name."""
    return re.compile(rf"\\*[\"'“‘]({alternatives(names)})\\*[\"'”’]\s*:", re.I)


@functools.lru_cache(maxsize=1024)
def mark(names: tuple[str, ...]) -> re.Pattern[str]:
    """The first character of a marker, of a tag with one of the names, or of a tag of a model's thoughts."""
    named = alternatives(names)
    return re.compile(
        rf"\[(?=\[[ \t]*(?:#|(?:{named}|{END})\b))|<(?=/?\s*(?:{named}|think(?:ing)?|reasoning_content)\b)",
        re.I,
    )


@functools.lru_cache(maxsize=1024)
def remains(names: tuple[str, ...]) -> re.Pattern[str]:
    """Part of a marker, tag or key, even of one that was made harmless: a text with it is an attempt at a form."""
    named = alternatives((*names, END))
    return re.compile(rf"\[\s*\[|#[ \t]*\]|<\s*/?\s*(?:{named})\b|(?:{named})\\*[\"'”’]\s*:", re.I)


def json_objects(text: str, most: int) -> Iterator[tuple[Any, int, int]]:
    """The well-formed JSON objects in a text, without nested ones: the value, the beginning and the end of each.

    At most `most` opening braces are examined.
    """
    decoder, end = json.JSONDecoder(strict=False), 0
    for _ in range(most):
        begin = text.find("{", end)
        if begin < 0:
            return
        try:
            value, end = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            end = begin + 1
        else:
            yield value, begin, end


def alternatives(names: Sequence[str]) -> str:
    """A pattern for any of these names, whose words may be joined or stand apart."""
    return "|".join(r"[ _-]?".join(map(re.escape, name.split("_"))) for name in sorted(names, key=len, reverse=True))


def plain_name(name: str) -> str:
    """A name in lower case, without spaces and punctuation."""
    return re.sub(r"[\W_]", "", name).casefold()
