"""knowgap compile --optimizer finetune."""

from __future__ import annotations

import json
from pathlib import Path

import dspy
import pytest

from knowgap.cli.main import main
from knowgap.compiling import load
from knowgap.compiling.data import read_corpus
from knowgap.lms import make_lm
from knowgap.retrieval import BM25Index
from tests.lms.local.tiny import write_chat_model, write_fixed_reply


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_model(tmp_path_factory.mktemp("base") / "chat", max_position_embeddings=8192)


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main(["compile", "--program", "direct", "--optimizer", "finetune", *map(str, words)])
    return int(end.value.code or 0)


def quick(base: Path) -> list[object]:
    words = ["--data", "sample", "--limit", 2, "--lm", f"hf/{base}"]
    return [
        *words,
        "--teacher-lm",
        "extractive",
        "--optimizer-option",
        "epochs=1",
        "--optimizer-option",
        "max_length=4096",
    ]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KNOWGAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KNOWGAP_LM_OPTIONS", "max_new_tokens=4")
    monkeypatch.chdir(tmp_path)


def test_a_dry_run_shows_the_most_it_can_take(base: Path, capsys):
    assert run(*quick(base), "--dry-run", "--engine", "bm25") == 0
    assert "calls of the teacher" in capsys.readouterr().err
    assert not Path("direct-sample").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--optimizer-option", "epoch=2"], "unknown training setting 'epoch': did you mean 'epochs'?"),
        (["--optimizer-option", "epochs=many"], "epochs = 'many': must be a valid number"),
        (["--optimizer-option", "batch_size=0.5"], "batch_size = '0.5': must be a valid integer"),
        (["--lm", "extractive"], "only a local model (hf/PATH) can be finetuned"),
        (["--optimizer", "study"], "--study takes the settings of a study"),
    ],
)
def test_a_wrong_argument_gets_one_line(base: Path, capsys, words, message: str):
    lm = [] if "--lm" not in words else ["--engine", "bm25"]
    given = quick(base) if "--lm" not in words else ["--data", "sample", "--limit", 2]
    assert run(*given, *lm, *words) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert message in line


@pytest.fixture
def bridges():
    names = ["Orle", "Tarn", "Venn", "Brisk", "Quay", "Moss", "Fell", "Dune"]
    corpus = [{"id": n, "title": f"{n} Bridge", "text": f"The {n} Bridge was designed by Ada Venn."} for n in names]
    questions = [{"question": f"Who designed the {name} Bridge?", "answer": "Ada Venn"} for name in names]
    for name, rows in (("corpus", corpus), ("questions", questions)):
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["--data", "questions.jsonl", "--corpus", "corpus.jsonl", "--engine", "bm25", "--output-dir", "out"]


def test_it_trains_scores_and_saves(bridges, tmp_path: Path, capsys):
    base = write_fixed_reply(tmp_path / "base", ["[[ ## answer ## ]]\nAda Venn\n\n[[ ## completed ## ]]"])
    assert run(*quick(base)[2:], *bridges, "--program", "rag") == 0
    assert "trained" in capsys.readouterr().err
    config = json.loads(Path("out/artifact/config.json").read_text(encoding="utf-8"))
    assert config["lm"] == f"hf/{Path('out/model').resolve()}"
    assert set(config["evaluations"]) == {"dev before", "dev after", "test before", "test after"}
    loaded = load("out/artifact", retriever=BM25Index.from_passages(read_corpus("corpus.jsonl")))
    with dspy.context(lm=make_lm(config["lm"])):
        assert loaded(question="Who designed the Orle Bridge?").answer == "Ada Venn"


def test_a_model_that_could_not_be_read_before_is_said_and_what_was_trained_stays(base: Path, bridges, capsys):
    assert run(*quick(base)[2:], *bridges, "--program", "rag") == 2
    err = capsys.readouterr().err
    assert "no scores before: none of" in err
    assert Path("out/model/training.json").exists()
