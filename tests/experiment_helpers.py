"""A small table over a small data set on disk, for the tests of `knowgap experiment`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dspy
from compile_helpers import make_examples, make_retriever, reading_rule
from support import ScriptedEngine, by_output

from knowgap.compiling.experiments.table import ExperimentTable

TABLE = {
    "name": "tiny",
    "title": "Tiny & quick",
    "baseline": "memory",
    "paper": {
        "citation": "A Paper <of> 2024",
        "table": "Table 9",
        "lm": "rule",
        "engine": "bm25",
        "corpus": "the houses",
    },
    "columns": [{"dataset": "own", "label": "houses", "metrics": ["exact_match", "f1", "lm_calls"], "questions": 8}],
    "rows": [
        {"label": "memory", "program": "direct", "paper": [10.0, 20.5, 1.0]},
        {"label": "retrieval", "program": "rag", "settings": {"top_k": 2}, "paper": [90.0, float("nan"), 1.0]},
        {"label": "trained", "left_out": "needs a trained model", "paper": [50.0, 60.0, 1.0]},
    ],
}


def make_table(**changes: Any) -> ExperimentTable:
    return ExperimentTable.model_validate({**TABLE, **changes})


def write_data(folder: Path, n: int = 8) -> dict[str, dict[str, Path]]:
    """Questions and passages on disk, as `run_experiment` takes them."""
    examples = make_examples(n)
    questions, passages = folder / "questions.jsonl", folder / "passages.jsonl"
    lines = [{"id": e.id, "question": e.question, "answer": e.answer, "gold_ids": e.gold_ids} for e in examples]
    questions.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    texts = [p.to_dict() for p in make_retriever(examples).passages]
    passages.write_text("".join(json.dumps(text) + "\n" for text in texts), encoding="utf-8")
    return {"data": {"own": questions}, "corpora": {"own": passages}}


class LoggingEngine(ScriptedEngine):
    """Answers from passages that name the house; writes down what it is asked."""

    def __init__(self, log: Path):
        super().__init__(by_output({"answer": reading_rule}))
        self.log = log

    def complete(self, request):
        response = super().complete(request)
        _, inputs = self.calls[-1]
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(["passages" in inputs, inputs["question"]]) + "\n")
        return response


def logging_lm(log: Path) -> dspy.LM:
    return dspy.LM("test/rule", engine=LoggingEngine(log), cache=False, num_retries=0)


def asked(log: Path) -> list[list[Any]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
