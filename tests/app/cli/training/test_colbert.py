"""knowgap train colbert: a checkpoint that `knowgap index --checkpoint` takes, measured before and after."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgap.cli.main import main

NAMES = ["Orle", "Tarn", "Venn", "Brisk", "Quay", "Moss", "Fell", "Dune"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KNOWGAP_HOME", str(tmp_path / "home"))
    passages = [(f"{name} {what}", f"The {name} {what} is old.") for name in NAMES for what in ("Bridge", "Tower")]
    questions = [(f"How old is the {name} Bridge?", f"{name} Bridge") for name in NAMES]
    records = {
        "corpus": [{"id": title, "title": title, "text": text} for title, text in passages],
        "questions": [{"question": question, "answer": "very", "gold_ids": [gold]} for question, gold in questions],
    }
    for name, rows in records.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([*map(str, words)])
    return int(end.value.code or 0)


DATA = ["--data", "questions.jsonl", "--corpus", "corpus.jsonl", "--engine", "bm25"]
TRAIN = ["train", "colbert", *DATA, "--output", "new", "--dim", 32, "--negatives", 2, "--batch-size", 2]


def test_what_is_trained_is_indexed_and_searched(capsys):
    assert run(*TRAIN, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert [score["order"] for score in result["scores"]] == ["the index", "untrained", "trained"]
    assert result["scores"][2]["recall"].keys() == {"5", "50"}
    assert result["scores"][2]["mrr"]["n"] == 2  # a quarter of eight questions
    assert result["steps"] == 2
    assert run("index", "--corpus", "corpus.jsonl", "--index", "ix", "--checkpoint", "new") == 0
    capsys.readouterr()
    assert run("search", "How old is the Orle Bridge?", "--index", "ix", "--json") == 0
    assert json.loads(capsys.readouterr().out)["hits"][0]["id"] == "Orle Bridge"


def test_a_dry_run_and_no_measure(capsys):
    assert run(*TRAIN, "--dry-run") == 0
    assert "examples" in capsys.readouterr().out
    assert not Path("new").exists()
    assert run(*TRAIN, "--no-measure") == 0
    printed = capsys.readouterr()
    assert Path("new", "training.json").exists()
    assert printed.out == ""
    assert "trained new: 2 steps" in printed.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "somewhere"], "goes with --model embedded; somewhere has its own width"),
        (["--learning-rate", "-1"], "learning_rate = -1.0: must be a number above 0 to 1"),
        (["--dim", "20"], "dim = 20"),
    ],
)
def test_a_wrong_argument_gets_one_line(capsys, words, message: str):
    assert run(*TRAIN, *words) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert message in line
