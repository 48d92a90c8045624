"""Train RA-ISF's sub-models: self-knowledge, relevance of passages, decomposition of questions.

A teacher labels examples, and a language model learns to answer the prompts of RA-ISF as the labels say. Source:
"RA-ISF: Learning to Answer and Understand from Retrieval Augmentation via Iterative Self-Feedback", section 3.2,
equation 1 (cross-entropy of the label given the input), table 4 and appendix A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics.answers import exact_match
from knowgap.compiling.run import Run
from knowgap.compiling.teacher import ask_teacher, write_records
from knowgap.compiling.training.config import Job, LanguageModelConfig, SubModelConfig
from knowgap.compiling.training.fit import TrainingResult
from knowgap.compiling.training.language_model import train_language_model
from knowgap.errors import UsageError
from knowgap.lms.local import LocalModel
from knowgap.programs.ra_isf import RAISF
from knowgap.programs.replies.adapter import adapter_in_use
from knowgap.programs.replies.text import clean_lines
from knowgap.storage.files import json_digest
from knowgap.storage.processes import is_main_process, main_process_first

Task = Literal["know", "relevant", "decompose"]
TASKS: tuple[Task, ...] = get_args(Task)
"""RA-ISF's sub-models, by the predictors that ask them."""

Label = bool | list[str]
"""Yes or no for the two judgements; the sub-questions for a decomposition."""


class LabelledExample(BaseModel, extra="forbid", frozen=True):
    """An example of a sub-model.

    Attributes:
        id: the digest of question and passage.
        question: the question that is judged or decomposed.
        passage: the passage whose relevance is judged; empty for the other two sub-models.
        label: see `Label`.
    """

    id: str = ""
    question: str
    passage: str = ""
    label: Label


def train_ra_isf(job: Job[SubModelConfig]) -> list[TrainingResult]:
    """Label examples for RA-ISF's sub-models, and train the models on them; see `train`."""
    examples = job.examples
    program = RAISF(style="yes_no" if all(e.answer in ("yes", "no") for e in examples) else "short")
    if is_main_process() and not job.output.exists():
        LocalModel(job.base, "cpu", "auto")  # one that cannot be loaded is refused before the teacher is paid
    done: list[TrainingResult] = []
    for task in TASKS:
        items, file = [(example, "") for example in examples], job.output / f"{task}.jsonl"
        if task == "relevant":
            found = job.retriever.search([example.question for example in examples], job.config.top_k)
            items = [(each, str(hit.passage)) for each, hits in zip(examples, found, strict=True) for hit in hits]
        with main_process_first():
            labels, calls = label_items(items, task, program, file, job.run)
        trained = train_sub_model(replace(job, output=job.output / task), task, getattr(program, task), labels)
        note = f"{task}: {len(labels)} labels; {calls} calls of the teacher"
        done.append(replace(trained, notes=(note,)))
    return done


def label_items(
    items: Sequence[tuple[dspy.Example, str]], task: Task, program: RAISF, file: str | Path, run: Run
) -> tuple[list[LabelledExample], int]:
    """Label questions, each with the passage that is judged, if one is; see `write_records`.

    A question is known if the teacher answers it correctly without passages (appendix A.1; half of all yes/no questions
    are by chance). A passage is relevant if it says so (A.2), and sub-questions are its own (A.3).
    """
    by_id = {json_digest([example.question, passage])[:32]: (example, passage) for example, passage in items}
    predictor = program.answer if task == "know" else getattr(program, task)
    without = {"passages": [], "sub_answers": [], "style": program.wording} if task == "know" else {}

    def label(id: str) -> LabelledExample | None:
        example, passage = by_id[id]
        shown = {"passage": passage} if passage else without
        output = ask_teacher(predictor, run.lm, question=example.question, **shown)
        if output is None:
            return None
        value: Label
        if task == "know":
            value = bool(exact_match(example, output))
        elif task == "relevant":
            value = bool(output.relevant)
        else:
            value, _ = clean_lines(output.questions, len(output.questions))
        return LabelledExample(id=id, question=example.question, passage=passage, label=value) if value != [] else None

    about = {"task": task, "prompt": json_digest([predictor.dump_state()["signature"], without])}
    return write_records(list(by_id), label, file, LabelledExample, about, f"{task} label", run)


def train_sub_model(
    job: Job[LanguageModelConfig], task: Task, predictor: dspy.Predict, examples: Sequence[LabelledExample]
) -> TrainingResult:
    """Train a sub-model to answer a predictor of RA-ISF.

    Raises:
        UsageError: there is only one label.
    """
    if task != "decompose" and len({bool(example.label) for example in examples}) < 2:
        raise UsageError(f"all {len(examples)} examples of {task} have the same label: take more questions")
    conversations = [as_conversation(predictor, example) for example in examples]
    return train_language_model(job, conversations, {"kind": "ra-isf", "sub_model": task})


def as_conversation(predictor: dspy.Predict, example: LabelledExample) -> list[dict[str, str]]:
    """The prompt of a predictor, and the reply that says the label."""
    signature: Any = predictor.signature
    [field] = signature.output_fields
    inputs, outputs = {name: getattr(example, name) for name in signature.input_fields}, {field: example.label}
    data = adapter_in_use().format_finetune_data(signature=signature, demos=[], inputs=inputs, outputs=outputs)
    return data["messages"]
