"""`knowgap experiment` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from experiment_helpers import write_data
from typer.testing import CliRunner

from knowgap.cli import experiment as cli_experiment
from knowgap.compile.experiments.table import shipped_tables
from knowgap.errors import UnknownName, UsageError

TABLE = """
title = "Houses"
baseline = "memory"

[[columns]]
dataset = "own"
metrics = ["f1", "lm_calls"]

[[rows]]
label = "memory"
program = "direct"

[[rows]]
label = "retrieval"
program = "rag"
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KNOWGAP_HOME", str(tmp_path / "home"))
    for name in ("KNOWGAP_LM", "KNOWGAP_ENGINE", "KNOWGAP_OUTPUT_DIR", "KNOWGAP_RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "houses.toml").write_text(TABLE, encoding="utf-8")
    write_data(tmp_path, n=3)
    return tmp_path


def run(*arguments: str) -> str:
    app = typer.Typer()
    app.command("experiment")(cli_experiment.experiment)
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


OWN = ["houses.toml", "--data-path", "own=questions.jsonl", "--corpus", "own=passages.jsonl"]


def test_lists_the_tables(desk: Path):
    assert set(json.loads(run("--list", "--json"))) == set(shipped_tables())


def test_runs_a_table_of_ones_own(desk: Path):
    found = json.loads(run(*OWN, "--limit", "2", "--json"))
    assert [cell["questions"] for cell in found["cells"]] == [2, 2]
    assert {path.name for path in (desk / "experiment-houses").iterdir()} >= {
        "index.html",
        "experiment.md",
        "experiment.csv",
    }
    assert found["spent"]["calls"] == 4
    assert json.loads(run(*OWN, "--limit", "2", "--json"))["spent"]["calls"] == 0


def test_a_dry_run_asks_and_writes_nothing(desk: Path):
    before = set(desk.iterdir())
    found = json.loads(run("houses.toml", "--dry-run", "--json", "--prices", "1", "2", "--lm", "openai/some-model"))
    assert found["calls"] == [1000, 1000]
    assert found["price"][0] > 0
    assert {path for path in desk.iterdir() if path.name != "home"} == before - {desk / "home"}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([], UsageError, "name a table"),
        (["no_such"], UnknownName, "no_such"),
        (["houses.toml", "--data-path", "questions.jsonl"], UsageError, "NAME=VALUE"),
        (["houses.toml"], UsageError, "own=PATH"),
        ([*OWN, "--row", "nobody"], UnknownName, "nobody"),
    ],
)
def test_bad_input_gets_one_clear_line(desk: Path, arguments: list[str], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        run(*arguments)
