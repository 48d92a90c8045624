"""knowgap train rq-rag: transcripts by a teacher behind an endpoint, training, and scores before and after."""

from __future__ import annotations

import json
from pathlib import Path

import endpoint
import pytest
from support import in_chat_format, read_prompt

from knowgap.cli.main import main
from tests.lms.rq_rag.tiny import write_base_model

NAMES = ["Orle", "Tarn", "Venn", "Brisk", "Quay", "Moss", "Fell", "Dune"]
DATA = ["--data", "questions.jsonl", "--corpus", "corpus.jsonl", "--engine", "bm25", "--lm", "openai/teacher"]
QUICK = ["--model", "base", "--output", "new", "--batch-size", 2, "--gradient-accumulation", 1, "--top-k", 1]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KNOWGAP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    rows = {
        "corpus": [{"id": name, "title": name, "text": f"{name} is very old."} for name in NAMES],
        "questions": [{"question": f"How old is {n}?", "answer": "very old", "gold_ids": [n]} for n in NAMES],
    }
    for name, records in rows.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))
    write_base_model(tmp_path / "base")


@pytest.fixture
def teacher(monkeypatch):
    def reply(text):
        fields, inputs = read_prompt(text)
        if not fields:
            return "ready"
        if "queries" in fields:
            return in_chat_format({"search": "true", "queries": json.dumps([f"age of {inputs['question'][11:-1]}"])})
        return in_chat_format({"answer": "very old", "supported": "true"})

    monkeypatch.setattr(endpoint, "reply", reply)
    with endpoint.endpoint() as server:
        monkeypatch.setenv("KNOWGAP_API_BASE", server.api_base)
        yield server


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main(["train", "rq-rag", *map(str, words)])
    return int(end.value.code or 0)


def test_a_teacher_writes_and_a_model_learns(teacher, capsys):
    assert run(*DATA, *QUICK, "--depth", 1, "--json") == 0, capsys.readouterr().err
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert result["transcripts"] == {"kept, single_hop": 4}
    assert "transcripts: 4 of 4 questions (4 kept, single_hop); 8 teacher calls" in printed.err
    assert [score["generator"] for score in result["scores"]] == ["untrained", "trained, no search", "trained"]
    assert all(score["f1"]["n"] == 2 and 0 <= score["readable"] <= 1 for score in result["scores"])
    assert result["steps"] == 2
    lines = Path("new-transcripts.jsonl").read_text().splitlines()
    assert len(lines) == 5
    asked = len(teacher.bodies)
    assert run(*DATA, *QUICK, "--no-measure", "--overwrite", "--epochs", 2) == 0  # the transcripts are there
    assert len(teacher.bodies) == asked + 1  # whether it answers at all
    assert "4 steps" in capsys.readouterr().err


def test_a_dry_run_asks_nobody(teacher, capsys):
    assert run(*DATA, *QUICK, "--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["examples"], plan["steps"], plan["teacher_calls"]) == (4, 2, 8)
    assert plan["hours"] > 0
    assert teacher.bodies == []
    assert not Path("new-transcripts.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--split", "train"], "these are the questions that the model is trained on"),
        (["--learning-rate", "-1"], "learning_rate = -1.0"),
    ],
)
def test_a_wrong_argument_gets_one_line(capsys, words, message):
    assert run(*DATA, *QUICK, *words) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert message in line
