"""`knowgap experiment` as a user meets it."""

from __future__ import annotations

import csv

import pytest

OWN = ["experiment", "own_questions", "--data-path", "own=questions.jsonl", "--index", "own=idx"]
ROWS = ["--row", "no retrieval", "--row", "plain retrieval"]


def test_runs_a_table_on_ones_own_questions(indexed):
    models = ["--part", "entailment=grounding", "--part", "reranker=embedded"]
    shown, remarks = indexed(*OWN, *ROWS, *models, "--limit", "2")
    assert "plain retrieval" in shown
    assert "written to experiment-own_questions" in remarks
    folder = indexed.folder / "experiment-own_questions"
    assert {path.name for path in folder.iterdir()} >= {"experiment.md", "experiment.csv", "answers"}
    with (folder / "experiment.csv").open() as file:
        scores = [(row["row"], row["metric"]) for row in csv.DictReader(file)]
    assert {("no retrieval", "f1"), ("plain retrieval", "f1")} <= {*scores}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["experiment", "no_such"], "no_such"),
        (["experiment", "own_questions", "--data-path", "questions.jsonl"], "NAME=VALUE"),
        (["experiment", "own_questions"], "own=PATH"),
        ([*OWN, "--row", "nobody"], "nobody"),
    ],
)
def test_bad_input_gets_one_clear_line(indexed, arguments: list[str], message: str):
    assert message in indexed.refusal(*arguments)


MODULE = """
import dspy

from knowgap.programs.hyperparameters import Integer


class Notes(dspy.Module):
    k = Integer(1, "notes that are read", low=1, high=5)

    def __init__(self, retriever):
        self.retriever, self.answer = retriever, dspy.Predict("context: list[str], question -> answer")

    def forward(self, claim):
        [hits] = self.retriever.search([claim], self.k)
        notes = [hit.passage.text for hit in hits]
        return dspy.Prediction(answer=self.answer(context=notes, question=claim).answer)
"""
BESIDE = """title = "A module beside rag"
[[columns]]
dataset = "own"
metrics = ["exact_match", "lm_calls", "passages"]
[[rows]]
label = "plain"
program = "rag"
[[rows]]
label = "notes"
program = "notebook:Notes"
[[rows]]
label = "two notes"
program = "notebook:Notes"
settings = {{ k = 2 }}
{more}
"""


def test_a_module_is_a_row_beside_a_program(indexed):
    (indexed.folder / "notebook.py").write_text(MODULE)
    (indexed.folder / "beside.toml").write_text(BESIDE.format(more=""))
    indexed("experiment", "beside.toml", *OWN[2:])
    with (indexed.folder / "experiment-beside" / "experiment.csv").open() as file:
        scores = {(row["row"], row["metric"]): float(row["mean"]) for row in csv.DictReader(file)}
    assert scores["notes", "exact_match"] > 0
    assert scores["notes", "lm_calls"] == 1
    assert 1 == scores["notes", "passages"] < scores["two notes", "passages"] <= 2
    for program, problem in (("notebook:Notes", "'kk'"), ("notebook:Nots", "unknown name in notebook")):
        more = f"[[rows]]\nlabel = 'x'\nprogram = '{program}'\nsettings = {{ kk = 2 }}"
        (indexed.folder / "beside.toml").write_text(BESIDE.format(more=more))
        assert problem in indexed.refusal("experiment", "beside.toml", *OWN[2:])
