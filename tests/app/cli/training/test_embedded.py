"""knowgap train embedded: what it would train on, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from knowgap.cli.main import main
from knowgap.compiling.training.embedded import reading
from knowgap.lms.embedded.span_head import SpanHead
from knowgap.retrieval import EmbeddedEntailment
from tests.compile.training.embedded.public_data import write_public_data


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["train", "embedded", *map(str, words)])
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


@pytest.fixture
def data(tmp_path: Path) -> Path:
    texts = {f"Town {n}": [f"Town {n} was founded in {1200 + n} by Count {'ABCDEFGH'[n]}lmer."] for n in range(8)}
    records = [
        {
            "question": f"Who founded {title}?",
            "context": list(map(list, texts.items())),
            "supporting_facts": [[title, 0]],
        }
        for title in texts
    ]
    (tmp_path / "hotpot_train_8.json").write_text(json.dumps(records), "utf-8")
    return tmp_path


def test_a_dry_run_shows_the_questions_and_writes_nothing(data, tmp_path, capsys):
    code, out, err = run(capsys, "relevance", "--data", data, "--output", tmp_path / "new", "--dry-run", "--json")
    assert code == 0, err
    assert json.loads(out) == {"relevance": {"HotpotQA": {"questions": 8, "passages": 8}}}
    assert not (tmp_path / "new").exists()


def test_it_writes_a_reranker_and_what_it_measured(data, tmp_path, capsys):
    code, out, err = run(capsys, "relevance", "--data", data, "--output", tmp_path / "new", "--json")
    assert code == 0, err
    trained = json.loads(out)["relevance"]
    assert [own["name"] for own in trained["held_out"]] == ["HotpotQA"]
    settings = json.loads((tmp_path / "new" / "relevance.json").read_text("utf-8"))
    assert trained["delta"] == settings["delta"]
    assert "relevance, δ" in err


def test_an_unknown_part_and_a_folder_without_data_are_refused(tmp_path, capsys):
    code, _, err = run(capsys, "relevence", "--data", tmp_path, "--output", tmp_path / "new")
    assert code == 2
    assert "did you mean 'relevance'?" in err
    code, _, err = run(capsys, "--data", tmp_path, "--output", tmp_path / "new")
    assert code == 2
    assert "no training file" in err


@pytest.fixture
def small_run(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(reading.READING_CONFIG, epochs=1, max_length=64)
    monkeypatch.setattr(reading, "READING_CONFIG", small)
    monkeypatch.setattr(reading, "_HELD_OUT", 0.4)


def test_entailment_and_reading_are_trained(tmp_path, capsys, small_run):
    data, output = write_public_data(tmp_path / "data"), tmp_path / "new"
    command = ("entailment", "reading", "--data", data, "--output", output, "--json")
    code, out, err = run(capsys, *command, "--dry-run")
    assert code == 0, err
    planned = json.loads(out)
    assert planned["entailment"]["2wiki"]["true"] > 0
    assert planned["reading"]["steps"] > 0
    assert not output.exists()
    code, out, err = run(capsys, *command)
    assert code == 0, err
    done = json.loads(out)
    assert {own["source"] for own in done["entailment"]["held_out"]} == {"2wiki", "hotpot", "new_wiki"}
    assert done["reading"]["steps"] == planned["reading"]["steps"]
    assert EmbeddedEntailment(output).entails([("Wick is a town.", "Wick is a town.")])[0] > 0
    head = SpanHead(output / "reading")
    assert head.candidates("What is Wick?", [("", "Wick is a town.")])[0]
    assert head.ranking is not None
