"""Label examples one by one, and keep the labels in a file of JSON Lines, so that work which is killed continues."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.provenance import digest
from knowgap.compiling.evaluation.runner import map_ordered
from knowgap.lms.ra_isf.card import Task
from knowgap.retrieval.passage import Passage
from knowgap.storage.progress import Progress
from knowgap.storage.record_file import RecordFile, read_records

__all__ = [
    "Item",
    "Label",
    "LabelledExample",
    "Labeller",
    "Labelling",
    "count_missing",
    "label_items",
    "split_held_out",
]

_WHAT = "label of a sub-model of RA-ISF"
Label = bool | list[str]
"""Yes or no of the two judgements; the sub-questions of a decomposition."""


class Item(NamedTuple):
    """What is labelled: a question, or a question with a passage."""

    example: dspy.Example
    passage: Passage | None = None


class LabelledExample(BaseModel, extra="forbid", frozen=True):
    """An example of a sub-model.

    Attributes:
        key: of the item under its labeller; the same item has another key under another one.
        question: what is judged or decomposed.
        passage: what is judged to be relevant to it; empty for the other two.
        label: see `Label`.
    """

    key: str
    question: str
    passage: str = ""
    label: Label

    @property
    def id(self) -> str:
        """The key."""
        return self.key


@dataclass(frozen=True)
class Labeller:
    """Who labels, and how.

    Attributes:
        task: the sub-model that learns from the labels.
        name: for a reader.
        identity: everything that decides the labels, as JSON values.
        label: the label of an item, None if there is none, and how often the teacher was called for it.
        calls: calls of the teacher for an item, as a rule.
    """

    task: Task
    name: str
    identity: object
    label: Callable[[Item], tuple[Label | None, int]]
    calls: int = 0

    def key(self, item: Item) -> str:
        """The key of an item under this labeller."""
        passage = None if item.passage is None else str(item.passage)
        return digest([self.task, self.identity, item.example.question, passage])[:32]


@dataclass(frozen=True)
class Labelling:
    """What labelling brought.

    Attributes:
        examples: the labelled items in their order, each once.
        calls: calls of the teacher in this run.
        unlabelled: items without a label: the teacher's reply could not be read, or the data set has none.
        kept: items whose label was in the file before.
    """

    examples: list[LabelledExample]
    calls: int
    unlabelled: int
    kept: int


def label_items(
    items: Sequence[Item],
    labeller: Labeller,
    file: str | Path,
    *,
    num_threads: int = 4,
    progress: Progress | None = None,
) -> Labelling:
    """Label items, except for those that are labelled in the file already.

    Each label is appended to the file when it is there; a line that a killed process left unfinished is removed. The
    file may hold labels of other items and labellers, which stay.

    Args:
        items: an item that repeats an earlier one is left out.
        labeller: who labels.
        file: of JSON Lines.
        num_threads: items labelled at once.
        progress: is called with (items done, items in all, what is done).

    Raises:
        DataError: the file holds something else than labels.
        LanguageModelError: the teacher does not answer; what was labelled before is kept.
    """
    path = Path(file)
    by_key = {labeller.key(item): item for item in items}
    keys = list(dict.fromkeys(map(labeller.key, items)))
    missing, calls, counting = count_missing(items, labeller, path), 0, threading.Lock()
    known = read_records(path, LabelledExample, _WHAT)[1] if path.exists() else {}

    def label(key: str) -> LabelledExample | None:
        nonlocal calls
        value, asked = labeller.label(by_key[key])
        with counting:
            calls += asked
        if value is None:
            return None
        passage = by_key[key].passage
        text = "" if passage is None else str(passage)
        return LabelledExample(key=key, question=by_key[key].example.question, passage=text, label=value)

    if missing:  # else several processes may be here
        with RecordFile(path, LabelledExample, {"task": labeller.task}, _WHAT) as lines:
            made = map_ordered(label, lines.missing(keys), num_threads, ahead=8 * num_threads)
            lines.keep(made, len(keys), progress, lambda: f"{labeller.task}: {labeller.name}")
            known = lines.records
    examples = [known[key] for key in keys if key in known]
    return Labelling(examples, calls, len(keys) - len(examples), len(keys) - missing)


def count_missing(items: Iterable[Item], labeller: Labeller, file: str | Path) -> int:
    """How many of the items the file has no label for."""
    labelled = read_records(file, LabelledExample, _WHAT)[1] if Path(file).exists() else {}
    return len({labeller.key(item) for item in items} - labelled.keys())


def split_held_out(
    examples: Sequence[LabelledExample], share: float, seed: int = 0
) -> tuple[list[LabelledExample], list[LabelledExample]]:
    """Divide examples into those to train on and those held out, by question: the same question is never in both.

    Args:
        examples: in any order, which is kept.
        share: of the questions that are held out, 0 to 1.
        seed: another seed holds out others.
    """
    ranked = sorted({e.question for e in examples}, key=lambda q: hashlib.sha256(f"{seed}\n{q}".encode()).digest())
    held_out = set(ranked[: round(share * len(ranked))])
    train = [example for example in examples if example.question not in held_out]
    return train, [example for example in examples if example.question in held_out]
