"""How often RA-ISF's sub-models agree with their teacher on questions that they have not seen (the paper's table 4).

The teacher knows the gold evidence of the fictional encyclopedia, and remembers everything in it but dates, numbers
and places. Self-knowledge is learnt from what the teacher answers rightly without passages (appendix A.1), and
relevance from its judgement of each passage (A.2), both by a cross-encoder that starts from the embedded reader's
encoder. Decomposition is learnt from the teacher's sub-questions (A.3), by a causal model of two layers that starts
from random weights. `majority` always gives the most frequent label; for decomposition, it gives the question itself
as the only sub-question.
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

from knowgap.compiling.data import Dataset
from knowgap.compiling.training import SubModelConfig, ra_isf
from knowgap.compiling.training.labelling import refer_to_answers
from knowgap.lms.ra_isf.card import PROMPTS, TASKS, Task
from knowgap.retrieval.bm25 import BM25Index

_QUESTIONS: dict[Task, int] = {"know": 1000, "relevant": 160, "decompose": 3000}
_QUICK: dict[Task, int] = {"know": 40, "relevant": 8, "decompose": 40}
_CONFIGS: dict[Task, dict[str, Any]] = {
    "know": {"epochs": 1, "learning_rate": 1e-4, "batch_size": 16, "max_length": 64},
    "relevant": {"epochs": 2, "learning_rate": 1e-4, "batch_size": 16, "max_length": 72},
    "decompose": {"epochs": 12, "learning_rate": 3e-3, "batch_size": 32, "max_length": 256, "held_out": 0.1},
}
_REMARK = (
    "held out: questions. agreement: the share of the same labels, or of the questions with the same sub-questions; "
    "f1: of the words of the sub-questions. The intervals are bootstrapped over questions."
)
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
        ["sub-model", "from", "examples", "measure", "held out", "majority [95%]", "trained [95%]", "training"],
        rows,
        [_REMARK],
    )


def _rows(task: Task, count: int, folder: Path, *, quick: bool) -> Iterator[list[str]]:
    examples = list(stream_questions(count))
    corpus = list(stream_passages(_PASSAGES_PER_WORLD * (1 + count // _QUESTIONS_PER_WORLD)))
    base, settings = "embedded", _CONFIGS[task]
    if task == "decompose":
        texts = [PROMPTS[task]] * 50
        texts += [text for e in examples for text in (e.question, " | ".join(refer_to_answers(e)))]
        shape = {"num_attention_heads": 4, "intermediate_size": 256, "initializer_range": 0.02}
        base = str(write_model(folder / "tiny", "causal", texts, layers=2, width=128, vocabulary=1000, **shape))
        settings = {**settings, "epochs": 1} if quick else settings
    trained = ra_isf(
        Dataset("fictional", {"train": examples}, [], ""),  # passages that are found alone, as in appendix A.2
        folder,
        base=base,
        teacher=dspy.LM("knowgap/gold", engine=GoldTeacher(examples, corpus), cache=False, num_retries=0),
        retriever=BM25Index.from_passages(corpus) if task == "relevant" else None,
        tasks=[task],
        config=SubModelConfig(**settings),
        num_threads=1,
        progress=lambda done, total, text: note(f"{task}: {done}/{total} {text}") if done % 100 == 0 else None,
    )[task]
    for words in trained.notes:
        note(words)
    majority, after = (trained.scores[name].means for name in ("majority", "trained"))
    for metric, value in after.items():
        start = "the reader's encoder" if base == "embedded" else "nothing, 2 layers"
        time = f"{trained.training.steps} steps, {seconds(trained.training.seconds)}"
        yield [
            task,
            start,
            f"{trained.training.examples}",
            metric,
            f"{value.n}",
            f"{majority[metric]}",
            f"{value}",
            time,
        ]
