"""`knowgap experiment` as a user meets it."""

from __future__ import annotations

import pytest

from knowgap.compiling.experiments.table import shipped_tables

OWN = ["experiment", "own_questions", "--data-path", "own=questions.jsonl", "--corpus", "own=docs.jsonl"]
ROWS = ["--row", "no retrieval", "--row", "plain retrieval"]


def test_lists_the_tables(knowgap):
    assert set(knowgap.json("experiment", "--list")) == set(shipped_tables())
    assert "own_questions" in knowgap("experiment", "--list")[0]


def test_runs_a_table_on_ones_own_questions(knowgap):
    models = ["--part", "entailment=grounding", "--part", "reranker=embedded"]
    shown, remarks = knowgap(*OWN, *ROWS, *models, "--limit", "2")
    assert "plain retrieval" in shown
    assert "written to experiment-own_questions" in remarks
    names = {path.name for path in (knowgap.folder / "experiment-own_questions").iterdir()}
    assert names >= {"experiment.md", "experiment.csv", "answers"}
    lines = knowgap.json(*OWN, *ROWS, "--limit", "2")
    assert [line["row"] for line in lines if line["metric"] == "f1"] == ["no retrieval", "plain retrieval"]
    estimates = knowgap.json(*OWN, *ROWS, "--limit", "3", "--dry-run", "--prices", "1,2")
    assert [estimate["calls"] for estimate in estimates.values()] == [3, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["experiment"], "name a table"),
        (["experiment", "no_such"], "no_such"),
        (["experiment", "own_questions", "--data-path", "questions.jsonl"], "NAME=VALUE"),
        (["experiment", "own_questions"], "own=PATH"),
        ([*OWN, "--row", "nobody"], "nobody"),
    ],
)
def test_bad_input_gets_one_clear_line(knowgap, arguments: list[str], message: str):
    assert message in knowgap.refusal(*arguments)


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


def test_a_module_is_a_row_beside_a_program(knowgap):
    (knowgap.folder / "notebook.py").write_text(MODULE)
    (knowgap.folder / "beside.toml").write_text(BESIDE.format(more=""))
    lines = knowgap.json("experiment", "beside.toml", *OWN[2:], "--engine", "bm25")
    scores = {(line["row"], line["metric"]): line["mean"] for line in lines}
    assert scores["notes", "exact_match"] > 0
    assert scores["notes", "lm_calls"] == 1
    assert 1 == scores["notes", "passages"] < scores["two notes", "passages"] <= 2


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("[[rows]]\nlabel = 'x'\nprogram = 'notebook:Notes'\nsettings = { kk = 2 }", "'kk'"),
        ("[[rows]]\nlabel = 'x'\nprogram = 'notebook:Nots'", "unknown name in notebook"),
    ],
)
def test_what_is_wrong_with_a_module_in_a_table_is_one_line(knowgap, more, problem):
    (knowgap.folder / "notebook.py").write_text(MODULE)
    (knowgap.folder / "beside.toml").write_text(BESIDE.format(more=more))
    assert problem in knowgap.refusal("experiment", "beside.toml", *OWN[2:], "--engine", "bm25")
