"""Read prompts and write replies in the formats of DSPy's adapters (chat, JSON, XML, BAML, two-step)."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from knowgap.errors import SignatureNotServed

__all__ = ["Prompt", "count_tokens", "listed", "read_prompt", "read_value", "write_reply"]

_FIELD = re.compile(r"^\d+\. `(\w+)` \((.*?)\):", re.M)
_HEADINGS = (
    ("Your input fields are:\n", "Your output fields are:\n", "All interactions will be structured"),
    ("you will be provided with:\n", "Your outputs must contain:\n", "You should lay out your outputs"),
)
_BLOB = re.compile(r"^(?:\[\d+\] )?(?:«««\n(.*?)\n»»»|«(.*?)»)$", re.M | re.S)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's inputs by name, its output fields with the names of their types, and the format of the reply.

    `style` is `chat`, `json`, `xml` or `plain` (`name: value` lines, the first of two steps).
    """

    inputs: Mapping[str, Any]
    outputs: Mapping[str, str]
    style: str
    system: str = ""

    def says(self, output: str, words: str) -> bool:
        """Whether the description of an output field contains these words."""
        return any(words in line for line in self.system.splitlines() if f"`{output}` (" in line)


def read_prompt(system: str, user: str) -> Prompt:
    """Read the fields from the system message and their values from the last user message.

    Raises:
        SignatureNotServed: when the messages are not in a format that DSPy's adapters write.
    """
    for start, middle, end in _HEADINGS:
        before, found, rest = system.partition(start)
        inputs, found_too, rest = rest.partition(middle)
        if found and found_too and not _FIELD.search(before):
            outputs = rest.partition(end)[0]
            break
    else:
        raise SignatureNotServed("the extractive reader reads prompts of DSPy's adapters only: no field list was found")
    types, wanted = dict(_FIELD.findall(inputs)), dict(_FIELD.findall(outputs))
    if not wanted:
        raise SignatureNotServed("the extractive reader found no output field in the prompt")
    last = user.rstrip().rpartition("\n\n")[2]
    if start == _HEADINGS[1][0]:
        style = "plain"
    elif last.startswith("Respond with a JSON object"):
        style = "json"
    elif last.startswith("Respond with the corresponding output fields wrapped in XML tags"):
        style = "xml"
    else:
        style = "chat"
    values = _sections(user, list(types), style)
    return Prompt({name: read_value(text, types[name], style) for name, text in values.items()}, wanted, style, system)


def _sections(user: str, names: list[str], style: str) -> dict[str, str]:
    """The text of each input field; markers count only in the order of the fields, so that a value cannot fake one."""
    end = user.rfind("\n\nRespond with ")
    body = "\n" + (user if end < 0 or style == "plain" else user[:end])
    at, starts = 0, []
    for name in names:
        marker = {"xml": "\n<{}>\n", "plain": "\n{}: "}.get(style, "\n[[ ## {} ## ]]\n").format(name)
        if (found := body.find(marker, at)) >= 0:
            starts.append((name, found, found + len(marker)))
            at = found + len(marker) - 1  # the newline that ends a marker may begin the next one
    ends = [*(begin for _, begin, _ in starts[1:]), len(body)]
    return {
        name: body[begin:end].strip("\n").removesuffix(f"</{name}>" if style == "xml" else "").strip("\n")
        for (name, _, begin), end in zip(starts, ends, strict=False)
    }


def read_value(text: str, type_: str, style: str = "") -> Any:
    """Parse the value of a field as JSON, or as Python prints it where `style` is `plain`; else it stays text."""
    if type_ == "str" or (type_ in ("int", "float", "bool") and style) or not text:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return _python_value(text) if style == "plain" else text


def _python_value(text: str) -> Any:
    """Parse a value as Python prints it; models become mappings, and text that is no such value stays text."""
    try:
        return _plain(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text


def _plain(node: ast.expr) -> Any:
    if isinstance(node, ast.Call):
        return {keyword.arg: _plain(keyword.value) for keyword in node.keywords}
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_plain(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {_plain(k): _plain(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
    return ast.literal_eval(node)


def listed(text: str) -> list[str]:
    """Return the items of a list that DSPy wrote as `[1] «…»`, or any other text as the one item."""
    found = [many or one for many, one in _BLOB.findall(text)]
    return found or ([text] if text.strip() and text.strip() != "N/A" else [])


def write_reply(prompt: Prompt, values: Mapping[str, Any]) -> str:
    """Write a reply in the prompt's format from JSON-ready values."""
    if prompt.style == "json":
        return json.dumps(dict(values), ensure_ascii=False)
    if prompt.style == "xml":
        return "\n\n".join(_xml(name, value) for name, value in values.items())
    if prompt.style == "plain":
        return "\n\n".join(f"{name}: {_text(value)}" for name, value in values.items())
    fields = "\n\n".join(f"[[ ## {name} ## ]]\n{_text(value)}" for name, value in values.items())
    return f"{fields}\n\n[[ ## completed ## ]]"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.replace("[[ ##", "[ ##")  # a field marker inside a value would cut the reply
    return json.dumps(value, ensure_ascii=False)


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # which XML 1.0 does not have


def _xml(tag: str, value: Any) -> str:
    if isinstance(value, list):
        inner = "".join(_xml("item", item) for item in value)
    elif isinstance(value, dict):
        inner = "".join(_xml(key, item) for key, item in value.items())
    else:
        inner = escape(_CONTROL.sub(" ", value if isinstance(value, str) else json.dumps(value)))
    return f"<{tag}>{inner}</{tag}>"


def count_tokens(text: str) -> int:
    """Count words and marks, in place of tokens."""
    return len(re.findall(r"\w+|[^\w\s]", text))
