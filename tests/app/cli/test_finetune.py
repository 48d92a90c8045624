"""knowgap compile --optimizer finetune."""

from __future__ import annotations

import json
from pathlib import Path

import dspy
import pytest

from knowgap.compiling import load
from knowgap.compiling.data import read_corpus
from knowgap.lms import make_lm
from knowgap.retrieval import BM25Index
from tests.app.cli.conftest import write_lines
from tests.lms.local.tiny import write_chat_model, write_fixed_reply


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_model(tmp_path_factory.mktemp("base") / "chat", max_position_embeddings=8192)


FINETUNE = ("compile", "--program", "direct", "--optimizer", "finetune")


def quick(base: Path) -> list[str]:
    words = ["--data", "sample", "--limit", "2", "--lm", f"hf/{base}", "--teacher-lm", "extractive"]
    return [*FINETUNE, *words, "--optimizer-option", "epochs=1", "--optimizer-option", "max_length=4096"]


@pytest.fixture(autouse=True)
def _few_tokens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KNOWGAP_LM_OPTIONS", "max_new_tokens=4")


def test_a_dry_run_shows_what_it_takes(knowgap, base: Path):
    assert "calls of the teacher" in knowgap(*quick(base), "--dry-run", "--engine", "bm25")[1]
    assert not Path("direct-sample").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--optimizer-option", "epoch=2"], "unknown training setting 'epoch': did you mean 'epochs'?"),
        (["--optimizer-option", "epochs=many"], "epochs = 'many': must be a valid number"),
        (["--optimizer-option", "batch_size=0.5"], "batch_size = '0.5': must be a valid integer"),
        (["--lm", "extractive", "--engine", "bm25"], "only a local model (hf/PATH) can be finetuned"),
        (["--optimizer", "study"], "set its options with --study"),
    ],
)
def test_a_wrong_argument_gets_one_line(knowgap, base: Path, monkeypatch, words, message: str):
    if "extractive" in words:
        monkeypatch.delenv("KNOWGAP_LM_OPTIONS")
    assert message in knowgap.refusal(*quick(base), *words)


@pytest.fixture
def bridges(knowgap):
    names = ["Orle", "Tarn", "Venn", "Brisk", "Quay", "Moss", "Fell", "Dune"]
    corpus = [{"id": n, "title": f"{n} Bridge", "text": f"The {n} Bridge was designed by Ada Venn."} for n in names]
    questions = [{"question": f"Who designed the {name} Bridge?", "answer": "Ada Venn"} for name in names]
    write_lines(Path("corpus.jsonl"), corpus)
    write_lines(Path("questions.jsonl"), questions)
    data = ["--data", "questions.jsonl", "--corpus", "corpus.jsonl", "--engine", "bm25"]
    return [*data, "--output-dir", "out", "--program", "rag"]


def test_it_trains_scores_and_saves(knowgap, bridges, tmp_path: Path):
    base = write_fixed_reply(tmp_path / "base", ["[[ ## answer ## ]]\nAda Venn\n\n[[ ## completed ## ]]"])
    assert "trained" in knowgap(*quick(base), *bridges)[1]
    config = json.loads(Path("out/artifact/config.json").read_text(encoding="utf-8"))
    assert config["lm"] == f"hf/{Path('out/model').resolve()}"
    assert set(config["evaluations"]) == {"dev before", "dev after", "test before", "test after"}
    loaded = load("out/artifact", retriever=BM25Index.from_passages(read_corpus("corpus.jsonl")))
    with dspy.context(lm=make_lm(config["lm"])):
        assert loaded(question="Who designed the Orle Bridge?").answer == "Ada Venn"


def test_a_model_that_could_not_be_read_before_is_said_and_what_was_trained_stays(knowgap, base: Path, bridges):
    assert "before compiling could not be scored: none of" in knowgap(*quick(base), *bridges, code=2)[1]
    assert Path("out/model/training.json").exists()
