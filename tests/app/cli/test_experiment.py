"""`knowgap experiment` as a user meets it."""

from __future__ import annotations

import json

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
    assert names >= {"index.html", "experiment.md", "experiment.csv", "experiment.json"}
    result = knowgap.json(*OWN, *ROWS, "--limit", "2")
    assert [cell["questions"] for cell in result["cells"]] == [2, 2]
    assert result["spent"]["calls"] == 0  # the run before has their answers


def test_a_dry_run_asks_and_writes_nothing(knowgap):
    dry_run = ["experiment", "own_questions", *ROWS, "--dry-run", "--lm", "openai/some-model"]
    before = set(knowgap.folder.iterdir())
    estimate = knowgap.json(*dry_run, "--prices", "1,2")
    assert [cell["calls"] for cell in estimate.values()] == [500, 500]
    assert all(cell["money"] > 0 for cell in estimate.values())
    assert "with openai/some-model" in knowgap(*dry_run)[0]
    assert {path for path in knowgap.folder.iterdir() if path.name != "home"} == before - {knowgap.folder / "home"}


TABLE = """title = "A stranger's table"
{lm}
[[columns]]
dataset = "sample"
metrics = ["f1"{metric}]
task = "multi_hop"
[[rows]]
label = "plain"
program = "rag"
[[rows]]
label = "theirs"
program = "{program}"
"""


@pytest.mark.parametrize(
    ("table", "left"),
    [
        ({"program": "theirs_one:Program", "metric": ""}, ["plain on sample"]),
        ({"program": "direct", "metric": ', "theirs_two:metric"'}, []),
        ({"program": "theirs_three:Program:TEXT", "metric": ', "theirs_three:metric"'}, []),
    ],
)
def test_a_dry_run_imports_nothing_that_a_table_names(knowgap, table: dict[str, str], left: list[str]):
    (knowgap.folder / "table.toml").write_text(TABLE.format(lm="", **table), encoding="utf-8")
    for name in ("one", "two", "three"):
        code = "import pathlib\npathlib.Path('ran').touch()\nraise RuntimeError('their code')\n"
        (knowgap.folder / f"theirs_{name}.py").write_text(code, encoding="utf-8")
    shown, remarks = knowgap("experiment", "table.toml", "--dry-run", "--json")
    assert list(json.loads(shown)) == left
    assert f"would import and run {table['program'] if left else 'theirs'}" in remarks
    assert not (knowgap.folder / "ran").exists()
    with pytest.raises(RuntimeError, match="their code"):
        knowgap("experiment", "table.toml", "--dry-run", "--measure")
    assert (knowgap.folder / "ran").exists()


def test_a_table_names_a_model_on_the_hub(knowgap):
    text = TABLE.format(lm='lm = "hf/someone/model"', program="direct", metric="")
    (knowgap.folder / "table.toml").write_text(text, encoding="utf-8")
    assert "add --allow-hub someone/model to fetch it" in knowgap.refusal("experiment", "table.toml", "--dry-run")
    knowgap("experiment", "table.toml", "--dry-run", "--allow-hub", "someone/model")


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


def test_some_columns_alone(knowgap):
    command = ["experiment", "overview", "--row", "plain retrieval", "--dry-run", "--column"]
    estimate = knowgap.json(*command, "sample", "--data-path", "hotpotqa=not-needed.json")
    assert [name.count("sample") for name in estimate] == [1]
    assert "sample" in knowgap.refusal(*command, "no_such")


MODULE = """
import dspy


class Notes(dspy.Module):
    def __init__(self, k=1):
        self.k, self.search = k, dspy.Retrieve(k=5)
        self.answer = dspy.Predict("context: list[str], question -> answer")

    def forward(self, claim):
        notes = self.search(claim, k=self.k).passages
        return dspy.Prediction(verdict=self.answer(context=notes, question=claim).answer, notes="; ".join(notes))
"""
BESIDE = """title = "A module beside rag"
[[columns]]
dataset = "own"
metrics = ["exact_match", "lm_calls", "retrievals", "passages"]
[[rows]]
label = "plain"
program = "rag"
[[rows]]
label = "notes"
program = "notebook:Notes"
output = "verdict"
[[rows]]
label = "two notes"
program = "notebook:Notes"
output = "verdict"
settings = {{ k = 2 }}
{more}
"""


def test_a_module_is_a_row_beside_a_program(knowgap):
    (knowgap.folder / "notebook.py").write_text(MODULE)
    (knowgap.folder / "beside.toml").write_text(BESIDE.format(more=""))
    run = ["experiment", "beside.toml", *OWN[2:], "--engine", "bm25"]
    result = knowgap.json(*run)
    scores = [{each["metric"]: each["ours"]["mean"] for each in cell["figures"]} for cell in result["cells"]]
    assert scores[1]["exact_match"] > 0
    assert [[cell[name] for cell in scores] for name in ("lm_calls", "retrievals")] == [[1, 1, 1], [1, 1, 1]]
    assert 1 == scores[1]["passages"] < scores[2]["passages"] <= 2
    assert knowgap.json(*run)["spent"]["calls"] == 0


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("by_dataset = { own = { kk = 2 } }", "unknown hyperparameter of Notes 'kk': did you mean 'k'"),
        ('preset = "paper"', "unknown preset of notebook:Notes 'paper for the task multi_hop': known are none"),
        ('input = "question"', "unknown input of Notes 'question': known are claim"),
        ('[[rows]]\nlabel = "x"\nprogram = "rag"\noutput = "y"', "apply only to a dspy.Module, and rag is not one"),
        ('[[rows]]\nlabel = "x"\nprogram = "notebook:Nots"', "unknown name in notebook"),
    ],
)
def test_what_is_wrong_with_a_module_in_a_table_is_one_line(knowgap, more, problem):
    (knowgap.folder / "notebook.py").write_text(MODULE)
    (knowgap.folder / "beside.toml").write_text(BESIDE.format(more=more))
    assert problem in knowgap.refusal("experiment", "beside.toml", *OWN[2:], "--engine", "bm25")
