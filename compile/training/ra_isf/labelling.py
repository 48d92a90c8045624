"""Label examples one by one, and keep the labels in a file of JSON Lines, so that work which is killed continues."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import dspy
from dspy.utils.exceptions import LMError
from pydantic import BaseModel

from knowgap.compile.data.records import read_json_lines
from knowgap.compile.evaluation.provenance import digest, lm_name, lm_settings
from knowgap.compile.evaluation.runner import map_ordered
from knowgap.lms.providers import as_language_model_error
from knowgap.lms.ra_isf.card import Task
from knowgap.programs.replies.repeating import ask_until_read
from knowgap.programs.trace.usage import without_history
from knowgap.retrieval.index.build import Progress, no_progress
from knowgap.retrieval.passage import Passage

__all__ = [
    "Item",
    "Label",
    "LabelledExample",
    "Labeller",
    "Labelling",
    "ask_teacher",
    "count_missing",
    "label_items",
    "split_held_out",
    "teacher_identity",
]

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


def ask_teacher(predictor: dspy.Predict, lm: dspy.BaseLM, **inputs: object) -> tuple[dspy.Prediction | None, int]:
    """Ask a language model; returns None for the outputs if they cannot be read, and the number of calls.

    Raises:
        LanguageModelError: it does not answer.
    """
    try:
        with dspy.context(lm=lm), without_history():
            reply = ask_until_read(predictor, inputs)
    except LMError as error:
        raise as_language_model_error(error, lm) from error
    return reply.prediction, reply.usage.asked


def teacher_identity(lm: dspy.BaseLM, predictor: dspy.Predict, *more: object) -> list[object]:
    """What decides the replies of a language model to a predictor, as JSON values."""
    state = {name: value for name, value in predictor.dump_state().items() if name in ("demos", "signature")}
    return [lm_name(lm), lm_settings(lm), state, *more]


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
    keys = list(dict.fromkeys(labeller.key(item) for item in items))
    by_key = {labeller.key(item): item for item in items}
    known = {example.key: example for example in _read(path)}
    missing = [key for key in keys if key not in known]
    report, calls = progress or no_progress, 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as lines:
        labelled = map_ordered(lambda key: labeller.label(by_key[key]), missing, num_threads, ahead=8 * num_threads)
        for done, (key, (label, asked)) in enumerate(zip(missing, labelled, strict=True), start=1):
            calls += asked
            if label is not None:
                item = by_key[key]
                passage = "" if item.passage is None else str(item.passage)
                known[key] = LabelledExample(key=key, question=item.example.question, passage=passage, label=label)
                lines.write(known[key].model_dump_json() + "\n")
                lines.flush()
            report(done, len(missing), f"{labeller.task}: {labeller.name}")
        os.fsync(lines.fileno())
    examples = [known[key] for key in keys if key in known]
    return Labelling(examples, calls, len(keys) - len(examples), len(keys) - len(missing))


def count_missing(items: Iterable[Item], labeller: Labeller, file: str | Path) -> int:
    """How many of the items the file has no label for."""
    return len({labeller.key(item) for item in items} - {example.key for example in _read(Path(file))})


def _read(path: Path) -> list[LabelledExample]:
    """The labels in a file; a last line without an end is removed from it."""
    if not path.exists():
        return []
    content = path.read_bytes()
    if not content.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)
    if b"\n" not in content:
        return []
    found = []
    for record in read_json_lines(path):
        try:
            found.append(LabelledExample.model_validate(record.data))
        except ValueError:
            raise record.error("is no label of a sub-model of RA-ISF") from None
    return found


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
