"""The embedded reader on real questions: a check that it reads English, not only the sample's templates.

The reader is not a language model: it finds spans by words, names, dates and chains of relations. The trivial baseline
answers with the title of the first passage that the question does not name, and "yes" to yes/no questions. "gold" gives
the programs the gold paragraphs; otherwise the paragraphs of all questions are searched.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy
from real_data import NOT_THERE, real_data
from table import Table, note

from knowgap.compiling import Evaluation, evaluate
from knowgap.compiling.data.dataset import Dataset
from knowgap.lms import extractive_lm
from knowgap.programs.base import Program
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.hyperparameters import Integer
from knowgap.programs.migres import MIGRES
from knowgap.retrieval import BM25Index, ColBERTIndex, Retriever
from knowgap.retrieval.passage import Hit, Passage

_YES_NO = {"is", "are", "was", "were", "do", "does", "did", "can", "could", "would", "will", "has", "have", "had"}


class FirstTitle(Program):
    """The trivial baseline."""

    name = "first title"
    top_k = Integer(5, "number of passages to look at", low=1, high=100)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer yes, or with a title."""
        passages = [hit.passage for hit in self.retrieve([question], self.top_k)[0]]
        unnamed = [passage.title for passage in passages if passage.title.casefold() not in question.casefold()]
        yes_no = question.split(maxsplit=1)[0].casefold() in _YES_NO
        answer = "yes" if yes_no else (unnamed or [passage.title for passage in passages] or [""])[0]
        return dspy.Prediction(answer=answer, passages=passages)


class GoldRetriever:
    """Returns the gold passages of a question."""

    def __init__(self, gold: Mapping[str, Sequence[Passage]]) -> None:
        self._gold = gold

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return gold passages in the order of the data; none for a query that is not a question of the data."""
        return [
            [Hit(passage, 1.0 / rank, rank) for rank, passage in enumerate(self._gold.get(query, ())[:k], start=1)]
            for query in queries
        ]

    def __deepcopy__(self, memo: dict[int, Any]) -> GoldRetriever:
        return self


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--reader-questions", type=int, help="questions of each data set (all; quick 25)")
    group.add_argument("--reader-index", choices=("colbert", "bm25"), help="what searches (colbert; quick bm25)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Score each program on each data set."""
    limit = options.reader_questions or (25 if options.quick else None)
    engine = options.reader_index or ("bm25" if options.quick else "colbert")
    rows = []
    for data in real_data(options, limit):
        with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
            rows += _rows(data, _index(engine, data, Path(folder) / "index"), engine)
    yield Table(
        "The embedded reader on real questions",
        [
            "data",
            "passages from",
            "program",
            "questions",
            "EM [95%]",
            "F1 [95%]",
            "found",
            "shown",
            "LM calls",
            "failed",
        ],
        rows,
        ["Intervals are bootstrapped over questions."] if rows else [f"All {NOT_THERE}."],
    )


def _index(engine: str, data: Dataset, folder: Path) -> Retriever:
    note(f"reader: {engine} index of {data.name}, {len(data.corpus)} passages")
    return (ColBERTIndex if engine == "colbert" else BM25Index).build(data.corpus, folder)


def _rows(data: Dataset, index: Retriever, engine: str) -> list[list[str]]:
    examples = [example for example in data.splits["dev"] if example.gold_ids]
    known = {passage.id: passage for passage in data.corpus}
    gold = GoldRetriever({e.question: [known[name] for name in e.gold_ids] for e in examples})
    style: dict[str, Any] = {"style": "yes_no"} if data.name == "StrategyQA" else {}
    rows = []
    for source, programs in {
        "gold": [FirstTitle(gold, top_k=100), RAG(gold, top_k=20, **style)],
        engine: [FirstTitle(index), RAG(index, **style), MIGRES(index, **style)],
    }.items():
        for program in programs:
            note(f"reader: {program.name} on {data.name}, passages from {source}")
            evaluation = evaluate(program, examples, ("exact_match", "f1"), lm=extractive_lm(), num_threads=2)
            for failure in evaluation.failures:
                note(f"reader: {failure.id} failed: {failure.error}")
            rows.append([data.name, source, program.name, str(len(examples)), *_scores(evaluation)])
    return rows


def _scores(evaluation: Evaluation) -> list[str]:
    exact, f1 = evaluation.interval("exact_match"), evaluation.interval("f1")
    calls = f"{evaluation.costs()['lm_calls']:.1f}"
    evidence = [f"{evaluation.mean(name):.3f}" for name in ("found", "shown")]
    return [str(exact), str(f1), *evidence, calls, str(len(evaluation.failures))]
