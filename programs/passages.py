"""Passages as a language model reads them: under the numbers by which it cites them, and how many words they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from knowgap.retrieval.passage import Passage
from knowgap.retrieval.words import WORD
from knowgap.signatures import SourcePassage


def number_passages(inputs: Mapping[str, Any], signature: Any = None) -> tuple[dict[str, Any], list[Passage]]:
    """Number the passages of each list of passages among a predictor's inputs, from 1.

    Returns:
        The inputs with `SourcePassage`s in place of passages, or with texts for a field of the type `list[str]`; and
        the passages themselves.
    """
    fields = getattr(signature, "input_fields", {})
    numbered, passages = dict(inputs), list[Passage]()
    for name, value in inputs.items():
        if isinstance(value, list) and any(isinstance(item, Passage) for item in value):
            if name in fields and fields[name].annotation == list[str]:
                numbered[name] = [str(passage) for passage in value]
            else:
                numbered[name] = [SourcePassage(id=n, title=p.title, text=p.text) for n, p in enumerate(value, start=1)]
            passages += value
    return numbered, passages


def cited(passages: Sequence[Passage], numbers: Iterable[int]) -> list[Passage]:
    """The passages that a model cites by number, each once, in the order of citation; unknown numbers are ignored."""
    known = [number for number in dict.fromkeys(numbers) if 1 <= number <= len(passages)]
    return [passages[number - 1] for number in known]


def distinct(passages: Iterable[Passage]) -> list[Passage]:
    """Each passage once, in order of first appearance."""
    return list({passage.id: passage for passage in passages}.values())


def knowledge_tokens(passages: Iterable[Passage]) -> int:
    """The number of words in the titles and texts of retrieved passages.

    These are the tokens of external knowledge that a language model reads (MIGRES, table 5).
    """
    return sum(len(WORD.findall(f"{passage.title} {passage.text}")) for passage in passages)
