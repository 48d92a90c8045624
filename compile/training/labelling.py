"""Label examples of RA-ISF's sub-models, and keep the labels in a record file, from which a killed run continues."""

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
        id: the digest of question and passage.
        question: what is judged or decomposed.
        passage: what is judged to be relevant to it; empty for the other two.
        label: see `Label`.
    """

    id: str = ""
    question: str
    passage: str = ""
    label: Label


@dataclass(frozen=True)
class Labeller:
    """Who labels, and how.

    Attributes:
        task: the sub-model that learns from the labels.
        name: says in words where the labels come from.
        identity: everything that decides the labels, as JSON values.
        label: the label of an item, None if there is none, and how often the teacher was called for it.
        calls: calls of the teacher for an item, as a rule.
    """

    task: Task
    name: str
    identity: object
    label: Callable[[Item], tuple[Label | None, int]]
    calls: int = 0


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
    """Label the items that are not labelled in the file yet.

    Args:
        items: an item that repeats an earlier one is left out.
        labeller: who labels.
        file: the record file of the labels.
        num_threads: items labelled at once.
        progress: is called with (items done, items in all, what is done).

    Raises:
        UsageError: the file holds labels of another labeller, or something else.
        LanguageModelError: the teacher does not answer; what was labelled before is kept.
    """
    by_id = {_id(item): item for item in items}
    calls, counting = 0, threading.Lock()

    def label(id: str) -> LabelledExample | None:
        nonlocal calls
        item = by_id[id]
        value, asked = labeller.label(item)
        with counting:
            calls += asked
        if value is None:
            return None
        text = "" if item.passage is None else str(item.passage)
        return LabelledExample(id=id, question=item.example.question, passage=text, label=value)

    about = {"task": labeller.task, "labels": labeller.name, "labeller": digest(labeller.identity)}
    with RecordFile(file, LabelledExample, about, _WHAT) as lines:
        missing = lines.missing(list(by_id))
        made = map_ordered(label, missing, num_threads, ahead=8 * num_threads)
        lines.keep(made, len(by_id), progress, lambda: f"labels for {labeller.task}")
        examples = [lines.records[id] for id in by_id if id in lines.records]
    return Labelling(examples, calls, len(by_id) - len(examples), len(by_id) - len(missing))


def count_missing(items: Iterable[Item], file: str | Path) -> int:
    """How many of the items the file has no label for."""
    labelled = read_records(file, LabelledExample, _WHAT)[1] if Path(file).exists() else {}
    return len({*map(_id, items)} - labelled.keys())


def _id(item: Item) -> str:
    passage = None if item.passage is None else str(item.passage)
    return digest([item.example.question, passage])[:32]


def split_held_out(
    examples: Sequence[LabelledExample], share: float, seed: int = 0
) -> tuple[list[LabelledExample], list[LabelledExample]]:
    """Divide examples into those to train on and those held out, by question: the same question is never in both.

    Args:
        examples: in any order, which is kept.
        share: the share of the questions that are held out, 0 to 1.
        seed: another seed holds out others.
    """
    ranked = sorted({e.question for e in examples}, key=lambda q: hashlib.sha256(f"{seed}\n{q}".encode()).digest())
    held_out = set(ranked[: round(share * len(ranked))])
    train = [example for example in examples if example.question not in held_out]
    return train, [example for example in examples if example.question in held_out]
