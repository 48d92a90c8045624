"""Reads prompts and writes replies in the formats of DSPy's chat and JSON adapters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from dspy.utils.exceptions import LMUnsupportedFeatureError

from knowgap.errors import SignatureNotServed
from knowgap.lms.embedded.questions import plan
from knowgap.lms.embedded.reading import Answer, answer, bridge, coverages, uncovered
from knowgap.lms.embedded.text import Sentence, fold, mentions, names_in, normal
from knowgap.retrieval.words import split_sentences

_FIELD = re.compile(r"^\d+\. `(\w+)` \((.*?)\):", re.M)
_HEADINGS = re.compile(
    r"Your input fields are:\n(.*?)Your output fields are:\n(.*?)"
    r"(?:All interactions will be structured|Write every reply|\Z)",
    re.S,
)
_BLOB = re.compile(r"^(?:\[\d+\] )?(?:«««\n(.*?)\n»»»|«(.*?)»)$", re.M | re.S)
_PASSAGES = ("passages", "context", "contexts", "documents")
_STATEMENTS = ("known", "facts")
_TEXTS = ("note", "best_note", "text", "passage", "reasoning")
_NOTHING = ("unknown", "unanswerable")


class NotServed(SignatureNotServed, LMUnsupportedFeatureError):
    """`SignatureNotServed` as a DSPy error, which DSPy passes on to the caller without a retry."""


class Prompt:
    """A prompt, with what the reader finds in it.

    Attributes:
        inputs: the values of its input fields, by name.
        outputs: its output fields, with the names of their types.
        style: `chat` or `json`.
        system: its system message.
        question: what is asked.
        sub_answers: the answers to sub-questions, by the sub-question.
    """

    def __init__(self, inputs: Mapping[str, Any], outputs: Mapping[str, str], style: str, system: str = "") -> None:
        self.inputs, self.outputs, self.style, self.system = inputs, outputs, style, system
        queries = strings(inputs.get("queries", []))[:1]
        self.question = str(inputs.get("question") or inputs.get("query") or "".join(queries))
        pairs = inputs.get("sub_answers")
        pairs = [pair for pair in pairs if isinstance(pair, Mapping)] if isinstance(pairs, list) else []
        said = {str(pair.get("question", "")): str(pair.get("answer", "")).strip() for pair in pairs}
        self.sub_answers = {q: a for q, a in said.items() if a and fold(a).strip(" .") not in _NOTHING}

    def says(self, output: str, words: str) -> bool:
        """Whether the description of an output field contains these words."""
        return any(words in line for line in self.system.splitlines() if f"`{output}` (" in line)

    @cached_property
    def _given(self) -> list[tuple[int, str, str]]:
        return [passage for name in _PASSAGES for passage in _numbered(self.inputs.get(name, []))]

    @property
    def ids(self) -> list[int]:
        """The numbers of the passages."""
        return [ident for ident, _, _ in self._given]

    @cached_property
    def passages(self) -> list[Sentence]:
        """The sentences of the passages."""
        return [s for ident, title, text in self._given for s in read_passage(title, text, ident)]

    @cached_property
    def sentences(self) -> list[Sentence]:
        """The sentences of all inputs."""
        texts = [text for name in _STATEMENTS for text in strings(self.inputs.get(name, []))]
        texts += [str(self.inputs.get(name) or "") for name in _TEXTS]
        texts += re.findall(r"^\[\d+\] (.+)$", str(self.inputs.get("trajectory", "")), re.M)
        numbered = enumerate(texts, start=1_000_000)  # after all passages
        stated = [s for number, text in numbered for s in read_statement(text, number)]
        replies = [Sentence(reply, asked.rstrip("?")) for asked, reply in self.sub_answers.items()]
        return [*self.passages, *stated, *replies]

    @cached_property
    def found(self) -> Answer:
        """The answer from all inputs."""
        return answer(self.question, self.sentences)

    def useful(self, sentences: Sequence[Sentence], most: int = 8) -> list[Sentence]:
        """Choose useful sentences, in their order: those behind an answer, and those that cover much of a query."""
        worth: dict[Sentence, float] = {}
        for text in (self.question, *strings(self.inputs.get("queries", []))):
            for step in (step for step in (text, *plan(text).steps) if "#" not in step):
                for sentence, score in zip(sentences, coverages(step, sentences), strict=True):
                    worth[sentence] = max(worth.get(sentence, 0.0), score)
            worth.update(dict.fromkeys(answer(text, sentences).support, 2.0))
        floor = max(0.2, 0.6 * max(coverages(self.question, sentences), default=0.0))
        best = sorted((s for s in worth if worth[s] > floor), key=lambda s: (-worth[s], s.source, s.order))[:most]
        return sorted(best, key=lambda s: (s.source, s.order))

    def queries(self, most: int) -> list[str]:
        """Propose one to `most` queries for what is missing, none of which was asked before."""
        asked = [self.question, *self.sub_answers]
        asked += [text for name in ("asked", "searched") for text in strings(self.inputs.get(name, []))]
        asked += re.findall(r"^Search: (.+)$", str(self.inputs.get("trajectory", "")), re.M)
        fresh = distinct(bridge(self.question, self.found), asked)
        rest = uncovered(self.question, self.sentences) or self.question.rstrip(" ?")
        return fresh[:most] or [f"{rest}: further facts"]


def read_prompt(system: str, user: str) -> Prompt:
    """Read the fields from the system message and their values from the last user message.

    Raises:
        SignatureNotServed: when the messages are not in a format that DSPy's adapters write.
    """
    fields = _HEADINGS.search(system)
    if fields is None:
        raise NotServed("the extractive reader reads prompts of DSPy's chat and JSON adapters: no field list was found")
    types, wanted = (dict(_FIELD.findall(part)) for part in fields.groups())
    if not wanted:
        raise NotServed("the extractive reader found no output field in the prompt")
    values, _, form = user.rpartition("\n\nRespond with ")
    style = "json" if form.startswith("a JSON object") else "chat"
    inputs = _sections(values, list(types))
    return Prompt({name: _read_value(text, types[name]) for name, text in inputs.items()}, wanted, style, system)


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


def listed(text: str) -> list[str]:
    """Return the items of a list that DSPy wrote as `[1] «…»`, or any other text as the one item."""
    found = [many or one for many, one in _BLOB.findall(text)]
    return found or ([text] if text.strip() and text.strip() != "N/A" else [])


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
    """The items of a list of texts or of searched queries, given as a list or as DSPy writes one."""
    if isinstance(value, list):
        return [str(item.get("query", "")) if isinstance(item, Mapping) else str(item) for item in value]
    return listed(value) if isinstance(value, str) else []


def distinct(texts: Iterable[str], before: Iterable[str] = ()) -> list[str]:
    """The texts whose content words neither an earlier text nor one of `before` has."""
    known, said = set(map(normal, before)), dict[str, str]()
    for text in texts:
        said.setdefault(normal(text), text)
    return [text for key, text in said.items() if key not in known]


def _numbered(value: Any) -> list[tuple[int, str, str]]:
    """Return (id, title, text) of passages, given as mappings, as `Title | text` or as plain texts."""
    items = value if isinstance(value, list) else listed(value) if isinstance(value, str) else [value]
    found = []
    for number, item in enumerate(items, start=1):
        if isinstance(item, dict):
            text = str(item.get("text", item.get("long_text", item.get("content", ""))))
            ident = item.get("id")
            found.append((ident if isinstance(ident, int) else number, str(item.get("title", "")), text))
        else:
            found.append((number, *_titled(str(item))))
    return found


def _titled(line: str) -> tuple[str, str]:
    for mark in (" | ", ": "):
        title, found, text = line.partition(mark)
        if found and len(title) <= 80 and not title[:1].islower() and not re.search(r"[.!?] ", title):
            return title, text
    return "", line


def read_passage(title: str, text: str, source: int = 0) -> list[Sentence]:
    """Split a passage into sentences, each about its title."""
    return [Sentence(part, title, source, order) for order, part in enumerate(split_sentences(text))]


def read_statement(text: str, source: int = 0) -> list[Sentence]:
    """Split a note or statement; a line is about the title before its colon, or about the name that opens it."""
    found = []
    for line in text.splitlines():
        title, rest = _titled(line.strip().lstrip("-*• "))
        opening = names_in(split_sentences(rest)[0]) if not title and rest else ()
        title = title or next((name for name in opening if rest.find(name) <= 1), "")
        found += read_passage(title, rest, source)
        source += 1000  # each line counts as a passage
    return found


_PRONOUN = re.compile(r"(?:(He|She|It|They)|(His|Her|Its|Their))\b(?!['’])")


def standalone(sentence: Sentence) -> str:
    """Put the title before a sentence, or in the place of its first pronoun, unless it has all words of the title.

    A title in lower case is no name, but that of a file.
    """
    title = re.sub(r"\s*\([^()]*\)$", "", sentence.title)
    if not title or title.islower() or mentions(sentence.text, title):
        return sentence.text
    if lead := _PRONOUN.match(sentence.text):
        owner = title + ("'" if title.endswith("s") else "'s")
        return (title if lead[1] else owner) + sentence.text[lead.end() :]
    return f"{title}: {sentence.text}"
