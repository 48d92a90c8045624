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
    models = ["--part", "entailment=embedded", "--part", "reranker=embedded"]
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
    assert "--allow-hub someone/model lets it be fetched" in knowgap.refusal("experiment", "table.toml", "--dry-run")
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
