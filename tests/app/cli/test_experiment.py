"""`knowgap experiment` as a user meets it."""

from __future__ import annotations

import csv

OWN = ["experiment", "own_questions", "--data-path", "own=questions.jsonl", "--index", "own=idx"]
OWN += ["--row", "no retrieval", "--row", "plain retrieval"]


def test_runs_a_table_on_ones_own_questions(indexed):
    models = ["--part", "entailment=grounding", "--part", "reranker=embedded"]
    shown, remarks = indexed(*OWN, *models, "--limit", "2")
    assert "plain retrieval" in shown
    assert "written to experiment-own_questions" in remarks
    folder = indexed.folder / "experiment-own_questions"
    assert {path.name for path in folder.iterdir()} >= {"experiment.md", "experiment.csv", "answers"}
    with (folder / "experiment.csv").open() as file:
        scores = [(row["row"], row["metric"]) for row in csv.DictReader(file)]
    assert {("no retrieval", "f1"), ("plain retrieval", "f1")} <= {*scores}
