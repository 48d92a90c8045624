"""Read prompts and write replies in the formats of DSPy's adapters (chat, JSON, XML, BAML)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from knowgap.errors import SignatureNotServed

_FIELD = re.compile(r"^\d+\. `(\w+)` \((.*?)\):", re.M)
_HEADINGS = re.compile(
    r"Your input fields are:\n(.*?)Your output fields are:\n(.*?)(?:All interactions will be structured|\Z)", re.S
)
_BLOB = re.compile(r"^(?:\[\d+\] )?(?:«««\n(.*?)\n»»»|«(.*?)»)$", re.M | re.S)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's inputs by name, its output fields with the names of their types, and `chat`, `json` or `xml`."""

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
    fields = _HEADINGS.search(system)
    if fields is None:
        raise SignatureNotServed(
            "the extractive reader reads prompts of DSPy's chat, JSON, XML and BAML adapters: no field list was found"
        )
    types, wanted = (dict(_FIELD.findall(part)) for part in fields.groups())
    if not wanted:
        raise SignatureNotServed("the extractive reader found no output field in the prompt")
    values, _, form = user.rpartition("\n\nRespond with ")
    style = "json" if form.startswith("a JSON object") else "xml" if "wrapped in XML tags" in form[:60] else "chat"
    inputs = _sections(values, list(types), "<{}>" if style == "xml" else "[[ ## {} ## ]]")
    return Prompt({name: _read_value(text, types[name]) for name, text in inputs.items()}, wanted, style, system)


def _sections(body: str, names: list[str], marker: str) -> dict[str, str]:
    """The text of each input field; the last markers count, in the order of the fields, so that no value fakes one."""
    values: dict[str, str] = {}
    for name in reversed(names):
        before, found, value = f"\n{body}\n".rpartition(f"\n{marker.format(name)}\n")
        if found:
            values[name] = value.strip("\n").removesuffix(f"</{name}>").strip("\n")
            body = before
    return dict(reversed(values.items()))


def _read_value(text: str, type_: str) -> Any:
    """Parse the value of a field as JSON; else it stays text."""
    try:
        return text if type_ == "str" else json.loads(text)
    except ValueError:
        return text


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
