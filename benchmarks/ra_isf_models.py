"""How often RA-ISF's sub-models agree with their teacher on questions that they have not seen (the paper's table 4).

The teacher knows the gold evidence of the fictional encyclopedia, and remembers everything in it but dates, numbers and
places. Self-knowledge is learnt from what it answers rightly without passages (appendix A.1), relevance from its
judgement of each passage (A.2), both by a cross-encoder that starts from the embedded reader's encoder; decomposition
from its sub-questions (A.3), by a causal model of two layers that starts from nothing. Majority: the most frequent
label; for decomposition, the question itself as the only sub-question.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
from fictional import stream_passages, stream_questions
from local_models import write_model
from models.gold_teacher import GoldTeacher
from table import Table, note, seconds

from knowgap.compiling.training import TrainingConfig
from knowgap.compiling.training.fit import fit
from knowgap.compiling.training.labellers import answers_rightly, decomposes, judges_relevance, retrieve_items
from knowgap.compiling.training.labelling import Item, Labelling, label_items, split_held_out
from knowgap.compiling.training.sub_models import base_card, majority_agreement, measure_agreement, sub_model_job
from knowgap.lms.ra_isf.card import PROMPTS, TASKS, Task
from knowgap.lms.ra_isf.sub_models import load_sub_model
from knowgap.retrieval.bm25 import BM25Index

_QUESTIONS: dict[Task, int] = {"know": 1000, "relevant": 160, "decompose": 3000}
_QUICK: dict[Task, int] = {"know": 40, "relevant": 8, "decompose": 40}
_CONFIGS: dict[Task, TrainingConfig] = {
    "know": TrainingConfig(epochs=1, learning_rate=1e-4, batch_size=16, max_length=64),
    "relevant": TrainingConfig(epochs=2, learning_rate=1e-4, batch_size=16, max_length=72),
    "decompose": TrainingConfig(epochs=12, learning_rate=3e-3, batch_size=32, max_length=256),
}
_PASSAGES_PER_WORLD, _QUESTIONS_PER_WORLD = 340, 100


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--ra-isf-models", default=",".join(TASKS), help="sub-models, joined by commas")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Label, train and compare each sub-model."""
    rows = []
    for task in options.ra_isf_models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            rows += _rows(task, (_QUICK if options.quick else _QUESTIONS)[task], Path(folder), quick=options.quick)
    yield Table(
        "Agreement of RA-ISF's sub-models with their teacher",
        ["sub-model", "from", "examples", "agreement", "held out", "majority [95%]", "trained [95%]", "training"],
        rows,
        ["held out: questions. The decimals in brackets are bootstrapped over them."],
    )


def _label(task: Task, count: int, folder: Path) -> Labelling:
    examples = list(stream_questions(count))
    corpus = list(stream_passages(_PASSAGES_PER_WORLD * (1 + count // _QUESTIONS_PER_WORLD)))
    teacher = dspy.LM("knowgap/gold", engine=GoldTeacher(examples, corpus), cache=False, num_retries=0)
    items = [Item(example) for example in examples]
    labeller = {"know": answers_rightly, "relevant": judges_relevance, "decompose": decomposes}[task](teacher)
    if task == "relevant":
        items = retrieve_items(examples, BM25Index.from_passages(corpus), 5)  # those alone, as in appendix A.2
    return label_items(items, labeller, folder / "labels.jsonl", num_threads=1)


def _rows(task: Task, count: int, folder: Path, *, quick: bool) -> Iterator[list[str]]:
    labelling = _label(task, count, folder)
    train, held_out = split_held_out(labelling.examples, 0.1 if task == "decompose" else 0.2)
    note(f"{task}: {labelling.calls} calls of the teacher, {labelling.unlabelled} without a label")
    base, config = "embedded", _CONFIGS[task]
    if task == "decompose":
        texts = [text for e in train if isinstance(e.label, list) for text in (e.question, " | ".join(e.label))]
        shape = {"num_attention_heads": 4, "intermediate_size": 256, "initializer_range": 0.02}
        texts += [PROMPTS[task]] * 50
        base = str(write_model(folder / "tiny", "causal", texts, layers=2, width=128, vocabulary=1000, **shape))
        config = TrainingConfig(epochs=1, batch_size=32, max_length=256) if quick else config
    card = base_card(task, base, config)
    result = fit(sub_model_job(card, base, train, folder / "model", config), lambda done, total, text: (
        note(f"{task}: {done}/{total} {text}") if done % (1 + total // 5) == 0 else None
    ))  # fmt: skip
    majority = majority_agreement(task, train, held_out).rows()
    trained = measure_agreement(load_sub_model(task, folder / "model"), held_out).rows()
    for (what, before), (_, after) in zip(majority, trained, strict=True):
        start = "the reader's encoder" if base == "embedded" else "nothing, 2 layers"
        time = f"{result.steps} steps, {seconds(result.seconds)}"
        yield [task, start, f"{len(train)}", what, f"{after.n}", str(before), str(after), time]
