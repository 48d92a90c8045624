"""A small table over a small data set on disk, for the tests of `knowgap experiment`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from compile_helpers import make_examples, make_retriever

from knowgap.compiling.experiments.table import ExperimentTable
from knowgap.retrieval import BM25Index

TABLE = {
    "name": "tiny",
    "title": "Tiny & quick",
    "baseline": "memory",
    "paper": "A Paper <of> 2024, table 9",
    "setting": "rule, bm25 over the houses",
    "columns": [{"dataset": "own", "label": "houses", "metrics": ["exact_match", "f1", "lm_calls"], "questions": 8}],
    "rows": [
        {"label": "memory", "program": "direct", "paper": [10.0, 20.5, 1.0]},
        {"label": "retrieval", "program": "rag", "settings": {"top_k": 2}, "paper": [90.0, float("nan"), 1.0]},
        {"label": "trained", "left_out": "needs a trained model", "paper": [50.0, 60.0, 1.0]},
    ],
}


def make_table(**changes: Any) -> ExperimentTable:
    return ExperimentTable.model_validate({**TABLE, **changes})


def write_data(folder: Path, n: int = 8) -> dict[str, Any]:
    """Questions on disk and an index, as an `Experiment` takes them."""
    examples = make_examples(n)
    lines = [{"id": e.id, "question": e.question, "answer": e.answer, "gold_ids": e.gold_ids} for e in examples]
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    index = BM25Index.from_passages(make_retriever(examples).passages)
    return {"data": {"own": folder / "questions.jsonl"}, "indexes": {"own": index}}
