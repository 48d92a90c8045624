"""Reads prompts and writes replies in the formats of DSPy's chat and JSON adapters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from dspy.utils.exceptions import LMUnsupportedFeatureError

from knowgap.errors import SignatureNotServed
from knowgap.lms.embedded.reading import Answer, answer, bridge, coverage
from knowgap.lms.embedded.text import Sentence, fold, names_in, stems
from knowgap.retrieval.words import split_sentences

_FIELD = re.compile(r"^\d+\. `(\w+)` \((.*?)\):", re.M)
_HEADINGS = re.compile(
    r"Your input fields are:\n(.*?)Your output fields are:\n(.*?)"
    r"(?:All interactions will be structured|Write every reply|\Z)",
    re.S,
)
_BLOB = re.compile(r"^(?:\[\d+\] )?(?:«««\n(.*?)\n»»»|«(.*?)»)$", re.M | re.S)
_PASSAGES = ("passages", "context", "contexts", "documents")
_STATED = ("known", "facts", "note", "best_note", "text", "passage", "reasoning")


class NotServed(SignatureNotServed, LMUnsupportedFeatureError):
    """`SignatureNotServed` as a DSPy error, which DSPy passes on to the caller without a retry."""


class Prompt:
    """A prompt, with what the reader finds in it.

    Attributes:
        inputs: the values of its input fields, by name.
        outputs: its output fields, with the names of their types.
        style: `chat` or `json`.
        question: what is asked.
        sub_answers: the answers to sub-questions, by the sub-question.
    """

    def __init__(self, inputs: Mapping[str, Any], outputs: Mapping[str, str], style: str) -> None:
        self.inputs, self.outputs, self.style = inputs, outputs, style
        queries = strings(inputs.get("queries", []))[:1]
        self.question = str(inputs.get("question") or inputs.get("query") or "".join(queries))
        pairs = [pair for pair in inputs.get("sub_answers") or [] if isinstance(pair, Mapping)]
        said = {str(pair.get("question", "")): str(pair.get("answer", "")).strip() for pair in pairs}
        self.sub_answers = {q: a for q, a in said.items() if fold(a) not in ("", "unknown")}

    @cached_property
    def passages(self) -> list[Sentence]:
        """The sentences of the passages."""
        given = (passage for name in _PASSAGES for passage in _numbered(self.inputs.get(name, [])))
        return [s for number, title, text in given for s in read_passage(title, text, number)]

    @cached_property
    def sentences(self) -> list[Sentence]:
        """The sentences of all inputs."""
        texts = [text for name in _STATED for text in strings(self.inputs.get(name, []))]
        texts += re.findall(r"^\[\d+\] (.+)$", str(self.inputs.get("trajectory", "")), re.M)
        numbered = enumerate(texts, start=1_000_000)  # after all passages
        stated = [s for number, text in numbered for s in read_statement(text, number)]
        replies = [Sentence(reply, asked.rstrip("?")) for asked, reply in self.sub_answers.items()]
        return [*self.passages, *stated, *replies]

    @cached_property
    def found(self) -> Answer:
        """The answer from all inputs."""
        return answer(self.question, self.sentences)

    def useful(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Up to eight useful sentences, in their order: they state a fact, or cover much of the question or a query."""
        chosen: set[Sentence] = set()
        for text in (self.question, *strings(self.inputs.get("queries", []))):
            floor = max(0.2, 0.6 * max((coverage(text, s) for s in sentences), default=0.0))
            chosen.update(s for s in sentences if coverage(text, s) > floor)
            chosen.update(answer(text, sentences).stated)
        return [s for s in sentences if s in chosen][:8]

    def queries(self, most: int) -> list[str]:
        """Propose one to `most` queries for what is missing, none of which was asked before."""
        asked = [self.question, *self.sub_answers]
        asked += [text for name in ("asked", "searched") for text in strings(self.inputs.get(name, []))]
        asked += re.findall(r"^Search: (.+)$", str(self.inputs.get("trajectory", "")), re.M)
        fresh = distinct(bridge(self.question, self.found), asked)
        return fresh[:most] or [f"{self.question.rstrip(' ?')}: further facts"]


def read_prompt(system: str, user: str) -> Prompt:
    """Read the fields from the system message and their values from the last user message.

    Raises:
        SignatureNotServed: when the messages are not in a format that DSPy's adapters write.
    """
    fields = _HEADINGS.search(system)
    types, wanted = (dict(_FIELD.findall(part)) for part in (fields.groups() if fields else ("", "")))
    if not wanted:
        raise NotServed("the extractive reader reads prompts of DSPy's chat and JSON adapters: no output field found")
    values, _, form = user.rpartition("\n\nRespond with ")
    style = "json" if form.startswith("a JSON object") else "chat"
    inputs = _sections(values, list(types))
    return Prompt({name: _read_value(text, types[name]) for name, text in inputs.items()}, wanted, style)


def _sections(body: str, names: list[str]) -> dict[str, str]:
    """The text of each input field; the last markers count, in the order of the fields, so that no value forges one."""
    values: dict[str, str] = {}
    for name in reversed(names):
        before, found, value = f"\n{body}\n".rpartition(f"\n[[ ## {name} ## ]]\n")
        if found:
            values[name] = value.strip("\n")
            body = before
    return dict(reversed(values.items()))


def _read_value(text: str, type_: str) -> Any:
    """Parse the value of a field as JSON; else it stays text."""
    try:
        return text if type_ == "str" else json.loads(text)
    except ValueError:
        return text


def write_reply(prompt: Prompt, values: Mapping[str, Any]) -> str:
    """Write a reply in the prompt's format from JSON-ready values."""
    if prompt.style == "json":
        return json.dumps(dict(values), ensure_ascii=False)
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in values.items()
    }
    # A field marker inside a value would cut the reply.
    fields = [f"[[ ## {name} ## ]]\n{text.replace('[[ ##', '[ ##')}" for name, text in texts.items()]
    return "\n\n".join([*fields, "[[ ## completed ## ]]"])


def count_tokens(text: str) -> int:
    """Count words and punctuation marks, in place of tokens."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def strings(value: Any) -> list[str]:
    """The items of a list of texts or of searched queries, also as DSPy writes one; another text is one item."""
    if isinstance(value, list):
        return [str(item.get("query", "")) if isinstance(item, Mapping) else str(item) for item in value]
    found = [many or one for many, one in _BLOB.findall(str(value))]
    return found or [text for text in [str(value)] if text.strip() not in ("", "N/A")]


def distinct(texts: Iterable[str], before: Iterable[str] = ()) -> list[str]:
    """The texts whose content words neither an earlier text nor one of `before` has."""
    said = {stems(text) or text: "" for text in before}
    for text in texts:
        said.setdefault(stems(text) or text, text)
    return [text for text in said.values() if text]


def _numbered(value: Any) -> Iterator[tuple[int, str, str]]:
    """Yield (id, title, text) of passages, given as mappings, as `Title | text` or as plain texts."""
    for number, item in enumerate(value if isinstance(value, list) else strings(value), start=1):
        if isinstance(item, Mapping):
            id = str(item.get("id"))
            yield int(id) if id.isdecimal() else number, str(item.get("title", "")), str(item.get("text", ""))
        else:
            yield number, *_titled(str(item))


def _titled(line: str) -> tuple[str, str]:
    for mark in (" | ", ": "):
        title, found, text = line.partition(mark)
        if found and len(title) <= 80 and not title[:1].islower() and not re.search(r"[.!?] ", title):
            return title, text
    return "", line


def read_passage(title: str, text: str, source: int = 0) -> list[Sentence]:
    """Split a passage into sentences, each about its title."""
    return [Sentence(part, title, source) for part in split_sentences(text)]


def read_statement(text: str, source: int = 0) -> list[Sentence]:
    """Split a note or statement; a line is about the title before its colon, or about the name that opens it."""
    found: list[Sentence] = []
    for line in text.splitlines():
        title, rest = _titled(line.strip().lstrip("-*• "))
        title = title or next((name for name in names_in(rest) if rest.startswith(name)), "")
        found += read_passage(title, rest, source)
    return found
