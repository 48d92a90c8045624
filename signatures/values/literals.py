"""Read the JSON or Python that a text spells, in a time that grows with its length and no faster.

Python's own parser takes minutes for some texts (`[1][1][1]…`), and so does the repair of JSON where much is to be
repaired. So Python literals are read here, and only the beginning of a damaged text is repaired.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from contextlib import suppress
from typing import Any

import json_repair

__all__ = ["REPAIRABLE", "STRAIGHT_QUOTES", "parse_literal", "repair_json"]

STRAIGHT_QUOTES = str.maketrans(dict.fromkeys("“”„«»「」", '"') | dict.fromkeys("‘’‹›", "'"))
"""Translates typographic quotes into straight ones."""

REPAIRABLE = 8_000
"""Characters of damaged JSON that are repaired: the time for it grows with the square."""
_BRACKETS, _DEPTH, _QUOTES = 100, 8, 400
"""Opening brackets in all and inside of one another, and quotes, that damaged JSON may have to be repaired."""
_LONGEST = 50_000
"""Characters of a list or an object that is read at all."""
_DEEPEST = 20
"""Levels of a Python literal."""
_UNREADABLE = (ValueError, RecursionError, MemoryError)
_NAMES = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>[rbu]?(?:\"{3}.*?(?<!\\)\"{3}|'{3}.*?(?<!\\)'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<number>[-+]?(?:\d[\d_]*)?\.?\d[\d_]*\.?(?:e[-+]?\d+)?)
    |(?P<name>[^\W\d]\w*)
    |(?P<mark>[\[\](){},:=])
    )""",
    re.X | re.S | re.I,
)


def parse_literal(text: str, *, repair: bool = False) -> Any:
    """The JSON or Python value that a text spells, also with typographic quotes; None if it spells none.

    Args:
        text: a list, an object, or a call such as `Statement(statement="…")`, which becomes an object.
        repair: whether to repair what is damaged, such as a list that was cut off.
    """
    if text[:1] not in ("[", "{", "(") or len(text) > _LONGEST:
        return None
    for spelled in (text, text.translate(STRAIGHT_QUOTES)):
        for parse in (json.loads, _parse_python):
            with suppress(*_UNREADABLE):
                return parse(spelled)
    if items := re.findall(r"[“„«「‘‹](.{0,1000}?)[”“»」’›](?=\s*[,\]])", text[:REPAIRABLE]):
        return items
    return repair_json(text) if repair and re.match(r"[\[{]\s*[\"'{]", text) else None


def repair_json(text: str) -> Any:
    """What the beginning of a damaged JSON text says; None if that is nothing, or if there is too much to repair."""
    text = text[:REPAIRABLE]
    if sum(map(text.count, "{[(")) > _BRACKETS or sum(map(text.count, "\"'“”`")) > _QUOTES or _depth(text) > _DEPTH:
        return None
    with suppress(*_UNREADABLE):
        return json_repair.loads(text) or None
    return None


def _depth(text: str) -> int:
    """How many brackets stand inside of one another."""
    depths = itertools.accumulate((1 if mark in "{[(" else -1 for mark in re.findall(r"[\[\](){}]", text)), initial=0)
    return max(depths)


def _parse_python(text: str) -> Any:
    """Read a Python literal; calls with keywords become objects, tuples and sets become lists.

    Raises:
        ValueError: it is none.
    """
    reader = _Reader(text)
    value = reader.value(0)
    reader.end()
    return value


class _Reader:
    """Reads a text from left to right; `kind` and `token` are those of the next token, empty at the end."""

    def __init__(self, text: str):
        self.text, self.position = text.rstrip(), 0
        self.kind, self.token = "", ""
        self._advance()

    def _advance(self) -> str:
        """Go on by a token, and return the one that was the next."""
        last, self.kind, self.token = self.token, "", ""
        if self.position < len(self.text):
            found = _TOKEN.match(self.text, self.position)
            if found is None or found.lastgroup is None:
                raise ValueError(f"no Python at {self.position}")
            self.kind, self.token, self.position = found.lastgroup, found[found.lastgroup], found.end()
        return last

    def _expect(self, *tokens: str) -> str:
        if self.token not in tokens or self.kind == "string":
            raise ValueError(f"{self.token!r} instead of {tokens}")
        return self._advance()

    def end(self) -> None:
        if self.token:
            raise ValueError(f"{self.token!r} after the end")

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        if self.kind == "string":
            return self._strings()
        if self.kind == "number":
            digits = self._advance().replace("_", "")
            return int(digits) if digits.lstrip("+-").isdigit() else float(digits)
        if self.kind == "name":
            name = self._advance()
            if self.token == "(":
                return self._keywords(depth)
            if name not in _NAMES:
                raise ValueError(f"the name {name}")
            return _NAMES[name]
        opening = self._expect("[", "(", "{")
        return self._items("]" if opening == "[" else ")", depth) if opening != "{" else self._entries(depth)

    def _strings(self) -> str:
        """Strings in a row, which Python joins."""
        parts: list[str] = []
        while self.kind == "string":
            token = self._advance()
            plain = token[0] in "\"'" and token[:3] not in ('"""', "'''") and "\\" not in token
            part = token[1:-1] if plain else ast.literal_eval(token)
            parts.append(part if isinstance(part, str) else part.decode())
        return "".join(parts)

    def _items(self, closing: str, depth: int) -> Any:
        items: list[Any] = []
        comma = False
        while self.token != closing:
            items.append(self.value(depth + 1))
            comma = self.token == ","
            if self.token != closing:
                self._expect(",")
        self._expect(closing)
        return items[0] if closing == ")" and len(items) == 1 and not comma else items

    def _entries(self, depth: int) -> Any:
        """A dictionary, or a set as a list."""
        entries: dict[Any, Any] = {}
        items: list[Any] = []
        while self.token != "}":
            item = self.value(depth + 1)
            if self.token == ":" and not items:
                self._expect(":")
                if not isinstance(item, (str, int, float)):
                    raise ValueError("a key that is no text")
                entries[item] = self.value(depth + 1)
            elif entries:
                raise ValueError("a key without a value")
            else:
                items.append(item)
            if self.token != "}":
                self._expect(",")
        self._expect("}")
        return items or entries

    def _keywords(self, depth: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        self._expect("(")
        while self.token != ")":
            if self.kind != "name":
                raise ValueError("an argument without a name")
            name = self._advance()
            self._expect("=")
            entries[name] = self.value(depth + 1)
            if self.token != ")":
                self._expect(",")
        self._expect(")")
        return entries
