"""Label examples of RA-ISF's sub-models by a teacher or from the data set (appendix A)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics import exact_match
from knowgap.compiling.evaluation.provenance import digest, lm_name, lm_settings
from knowgap.compiling.teacher import TeacherRecords, ask_teacher, write_records
from knowgap.compiling.training.ranking import search_all
from knowgap.errors import UsageError
from knowgap.programs.ra_isf import RAISF
from knowgap.programs.replies.text import clean_lines
from knowgap.retrieval.passage import Passage, Retriever, gold_name
from knowgap.storage.progress import Progress
from knowgap.storage.record_file import read_records

Task = Literal["know", "relevant", "decompose"]
TASKS: tuple[Task, ...] = get_args(Task)
"""RA-ISF's sub-models, by the predictors that ask them."""

Label = bool | list[str]
"""Yes or no for the two judgements; the sub-questions for a decomposition."""


class Item(NamedTuple):
    """What is labelled: a question, or a question with a passage."""

    example: dspy.Example
    passage: Passage | None = None

    @property
    def id(self) -> str:
        """The digest of question and passage."""
        return digest([self.example.question, self.passage and str(self.passage)])[:32]


class LabelledExample(BaseModel, extra="forbid", frozen=True):
    """An example of a sub-model.

    Attributes:
        id: the item's id.
        question: the question that is judged or decomposed.
        passage: the passage whose relevance is judged; empty for the other two sub-models.
        label: see `Label`.
    """

    id: str = ""
    question: str
    passage: str = ""
    label: Label


@dataclass(frozen=True)
class Labeller:
    """Labels the examples of a sub-model.

    Attributes:
        task: the sub-model that learns from the labels.
        identity: everything that determines the labels, as JSON values.
        label: returns the label of an item, or None if there is none.
        calls: how often the teacher is usually called for an item.
    """

    task: Task
    identity: object
    label: Callable[[Item], Label | None]
    calls: int = 0


def make_labeller(
    task: Task,
    source: Literal["answers", "teacher", "data"],
    teacher: dspy.BaseLM | None = None,
    program: RAISF | None = None,
) -> Labeller:
    """Make the labeller of a sub-model.

    Args:
        task: the sub-model.
        source: for `know`, whether the teacher answers correctly without passages (`answers`, appendix A.1; half of all
            yes/no questions are by chance) or says that it knows (`teacher`, section 4.5). For `relevant`, the
            teacher's verdict on each passage by itself (`teacher`, A.2), or the gold passages of the data set (`data`).
            For `decompose`, sub-questions of the teacher (`teacher`, A.3), or of the data set (`data`).
        teacher: a language model; for `answers`, the one that RA-ISF will ask.
        program: its style, demonstrations and hyperparameters go into the prompts.

    Raises:
        UsageError: a teacher is needed.
    """
    asked = program or RAISF()
    if source == "data":
        return Labeller(task, [source], lambda item: _label_of_data(task, item))
    if teacher is None:
        raise UsageError(f"a language model labels the examples of {task}: give a teacher")
    predictor = asked.answer if source == "answers" else predictor_of(asked, task)
    more: dict[str, Any] = {}
    if source == "answers":
        more = {"passages": [], "sub_answers": [], "style": asked.wording}

    def label(item: Item) -> Label | None:
        passage = {} if item.passage is None else {"passage": str(item.passage)}
        output = ask_teacher(predictor, teacher, question=item.example.question, **passage, **more)
        if output is None:
            return None
        if task == "decompose":
            return clean_lines(output.questions, len(output.questions))[0] or None
        if source == "answers":
            return bool(exact_match(item.example, output))
        return bool(output.knows if task == "know" else output.relevant)

    state = {name: value for name, value in predictor.dump_state().items() if name in ("demos", "signature")}
    identity = [source, lm_name(teacher), lm_settings(teacher), state, more]
    return Labeller(task, identity, label, calls=1)


def predictor_of(program: RAISF, task: Task) -> dspy.Predict:
    """The predictor of a program that asks a sub-model."""
    return {"know": program.know, "relevant": program.relevant, "decompose": program.decompose}[task]


def _label_of_data(task: Task, item: Item) -> Label | None:
    """The label of an item by the data set, None if there is none; unlike the paper's labels, it needs no call.

    Sub-questions of which one needs the answer to another are no label, since the program asks each by itself.
    """
    if task == "relevant":
        gold = item.example.get("gold_ids")
        return item.passage is not None and gold_name(item.passage.id, gold) is not None if gold else None
    questions = refer_to_answers(item.example)
    return None if any(_REFERENCE.search(question) for question in questions) else questions or None


_REFERENCE = re.compile(r"#\d{1,2}(?!\d)")


def refer_to_answers(example: dspy.Example) -> list[str]:
    """The sub-questions of a data set's question, in which `#n` replaces the answers to earlier sub-questions.

    An answer that the question itself contains is not replaced. The answers to a sub-question are the one in the data
    set, which may be a sentence, and the objects of evidence triples that it names. StrategyQA's sub-questions already
    have `#n`.
    """
    steps: Sequence[Mapping[str, str]] = example.get("decomposition") or ()
    objects = [triple[2] for triple in example.get("evidences") or ()]
    told = example.question.casefold()
    answers: list[tuple[str, int]] = []  # a text, and the number of the sub-question that it answers
    questions: list[str] = []
    for number, step in enumerate(steps, start=1):
        question = " ".join(step["question"].split())
        for text, earlier in sorted(answers, key=lambda pair: -len(pair[0])):
            question = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", f"#{earlier}", question, flags=re.IGNORECASE)
        questions.append(question)
        answer = step.get("answer") or ""
        named = [text for text in objects if text.casefold() in answer.casefold()]
        answers += [
            (text, number) for text in dict.fromkeys([answer, *named]) if text.strip() and text.casefold() not in told
        ]
    return [question for question in questions if question]


def retrieve_items(examples: Sequence[dspy.Example], retriever: Retriever, k: int) -> list[Item]:
    """Each question with the `k` best passages (appendix A.2; 5 in the paper's runs) of the retriever of RA-ISF."""
    return [Item(example, passage) for example, found in search_all(examples, retriever, k) for passage in found]


def label_items(
    items: Sequence[Item],
    labeller: Labeller,
    file: str | Path,
    *,
    num_threads: int = 4,
    progress: Progress | None = None,
) -> TeacherRecords[LabelledExample]:
    """Label the items that are not labelled in the record file yet; see `write_records`.

    An item that repeats an earlier one is left out.
    """
    by_id = {item.id: item for item in items}

    def label(id: str) -> LabelledExample | None:
        question, passage = by_id[id].example.question, by_id[id].passage
        value = labeller.label(by_id[id])
        if value is None:
            return None
        return LabelledExample(id=id, question=question, passage=str(passage or ""), label=value)

    about = {"task": labeller.task, "labeller": digest(labeller.identity)}
    what = f"{labeller.task} label"
    return write_records(
        list(by_id), label, file, LabelledExample, about, what, num_threads=num_threads, progress=progress
    )


def count_missing(items: Iterable[Item], file: str | Path) -> int:
    """How many of the items the file has no label for."""
    labelled = read_records(file, LabelledExample, "label")[1] if Path(file).exists() else {}
    return len({item.id for item in items} - labelled.keys())


def split_held_out(
    examples: Sequence[LabelledExample], share: float, seed: int = 0
) -> tuple[list[LabelledExample], list[LabelledExample]]:
    """Divide examples into those to train on and those held out, by question: the same question is never in both.

    `share` is the share of the questions that are held out, 0 to 1. Both parts keep the order of the examples.
    """
    ranked = sorted({e.question for e in examples}, key=lambda q: hashlib.sha256(f"{seed}\n{q}".encode()).digest())
    held_out = set(ranked[: round(share * len(ranked))])
    train = [example for example in examples if example.question not in held_out]
    return train, [example for example in examples if example.question in held_out]
