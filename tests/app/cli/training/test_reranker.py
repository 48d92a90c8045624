"""knowgap train reranker: plans, trains, measures before and after on unseen questions, and says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from training_helpers import write_tiny_bert

from knowgap.cli.main import main
from knowgap.retrieval import make_reranker

QUICK = ["--engine", "bm25", "--rerank", "8", "--max-length", "48", "--batch-size", "16", "--limit", "6"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("base") / "bert")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def run(capsys: pytest.CaptureFixture[str], home: Path, *words: object) -> tuple[int, str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KNOWGAP_HOME", str(home))
        with pytest.raises(SystemExit) as end:
            main(["train", "reranker", *map(str, words)])
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


def test_it_trains_a_reranker_and_measures_it_on_unseen_questions(base, home, tmp_path: Path, capsys):
    words = ["--data", "sample", "--model", base, "--output", tmp_path / "new", "--learning-rate", 0.01, *QUICK]
    code, out, err = run(capsys, home, *words, "--json")
    assert code == 0, err
    result = json.loads(out)
    index, untrained, trained = result["scores"]
    assert [score["order"] for score in result["scores"]] == ["the index", "untrained", "trained"]
    assert index["mrr"]["n"] == trained["mrr"]["n"] == trained["comparison"]["n"] == 6
    assert index["comparison"] is None
    assert "measured on 6 others of the split 'test'" in err
    assert "Converting" not in err
    made = json.loads((tmp_path / "new" / "training.json").read_text(encoding="utf-8"))
    assert made["made_from"]["kind"] == "reranker"
    assert made["final_loss"] == result["final_loss"] < 0.6931
    scores = make_reranker(tmp_path / "new").score([("Who built the bridge?", "Orle Bridge: Ada Venn built it.")])
    assert len(scores) == 1
    assert untrained["recall"].keys() == {"5"}
    code, out, err = run(capsys, home, *words)
    assert "is there already, trained with the same settings and data" in err
    assert "gold in best 5" in out


def test_lora_matrices_are_merged_into_the_weights(base, home, tmp_path: Path, capsys):
    words = ["--data", "sample", "--model", base, "--output", tmp_path / "lora", "--lora-rank", 2, *QUICK]
    code, _, err = run(capsys, home, *words)
    assert code == 0, err
    assert not list((tmp_path / "lora").glob("adapter*"))
    from safetensors import safe_open

    with safe_open(tmp_path / "lora" / "model.safetensors", "np") as weights:
        assert not [name for name in weights.keys() if "lora" in name or "modules_to_save" in name]  # noqa: SIM118


def test_a_dry_run_shows_what_it_takes_and_trains_nothing(base, home, tmp_path: Path, capsys):
    words = ["--data", "sample", "--model", base, "--output", tmp_path / "new", "--dry-run", "--json", *QUICK]
    code, out, _ = run(capsys, home, *words)
    plan = json.loads(out)
    assert code == 0
    assert plan["examples"] >= 6 * 5
    assert plan["steps"] == -(-plan["examples"] // 16)
    assert plan["hours"] > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epochs", "0"], "epochs = 0.0: must be a number above 0 to 10000"),
        (["--split", "train"], "--split train: these are the questions that the model is trained on"),
        (["--negatives", "5000"], "5000 negatives for a question: there are only"),
        (["--model", "nowhere/at/all"], "nowhere/at/all: cannot be loaded"),
    ],
)
def test_a_wrong_argument_gets_one_line(base, home, tmp_path: Path, capsys, words, message: str):
    given = ["--data", "sample", "--model", base, "--output", tmp_path / "new", *QUICK, *words]
    code, _, err = run(capsys, home, *given)
    assert code == 2
    [line] = [line for line in err.splitlines() if line.startswith("error:")]
    assert message in line


def test_questions_without_gold_passages_are_refused(tmp_path: Path, home, capsys):
    records = [{"question": f"What is {n}?", "answer": str(n)} for n in range(8)]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"id": "a", "title": "A", "text": "An a."}) + "\n")
    given = [
        "--data",
        tmp_path / "questions.jsonl",
        "--corpus",
        tmp_path / "corpus.jsonl",
        "--output",
        tmp_path / "new",
    ]
    code, _, err = run(capsys, home, *given, *QUICK)
    assert code == 2
    assert "none of 4 questions names gold passages (gold_ids)" in err
