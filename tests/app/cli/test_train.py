"""knowgap train: each kind is trained, and a wrong argument gets one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import scripted_lm

from knowgap.retrieval import BM25Index, make_reranker
from knowgap.retrieval.passage import Passage
from tests.app.cli.conftest import Knowgap, write_lines
from tests.lms.local.tiny_models import TEXTS, write_language_model
from tests.retrieval.tiny import write_cross_encoder

NAMES = ["Orle", "Tarn", "Venn", "Brisk", "Quay", "Moss", "Fell", "Dune"]
PASSAGES = [
    Passage(f"{name} {what}", f"{name} {what}", f"The {name} {what} is very old.")
    for name in NAMES
    for what in ("Bridge", "Tower")
]
GIVEN = ["--data", "questions.jsonl", "--index", "idx", "--output", "new"]
GIVEN += ["--set", "batch_size=2", "--set", "epochs=1"]


@pytest.fixture(autouse=True)
def _folder(knowgap: Knowgap):
    asked = [("How", f"{name} Bridge") for name in NAMES] + [("Who", f"{name} Tower") for name in NAMES]
    questions = [
        {"question": f"{how} old is the {what}?", "answer": "very old", "gold_ids": [what]} for how, what in asked
    ]
    write_lines(Path("questions.jsonl"), questions)
    BM25Index.build(PASSAGES, "idx")


def train(kind: str, *words: object) -> list[str]:
    return ["train", kind, *GIVEN, *map(str, words)]


def test_a_reranker_is_trained_once(tmp_path: Path, knowgap):
    words = ["--model", write_cross_encoder(tmp_path / "bert", []), "--set", "depth=8", "--set", "negatives=2"]
    assert "trained new: " in knowgap(*train("reranker", *words))[1]
    made = json.loads(Path("new/training.json").read_text(encoding="utf-8"))
    assert (made["made_from"]["kind"], made["steps"] > 0) == ("reranker", True)
    assert len(make_reranker("new").score([("Who built the bridge?", "Orle Bridge: Ada Venn built it.")])) == 1
    assert "already exists and was trained with the same settings and data" in knowgap(*train("reranker", *words))[1]


@pytest.fixture
def labeller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A teacher of RA-ISF's sub-models, which knows how old everything is, and not who."""

    def rule(outputs, inputs):
        if "relevant" in outputs:
            return {"relevant": inputs["question"].split()[-1].strip("?") in inputs["passage"]}
        if "questions" in outputs:
            return {"questions": [f"Part of {inputs['question']}", "Where was she born?"]}
        return {"answer": "very old" if inputs["question"].startswith("How") else "no idea"}

    lm, engine = scripted_lm(rule)
    monkeypatch.setattr("knowgap.cli.factories.load_lm", lambda *_, **__: lm)
    write_language_model(tmp_path / "tiny", "causal", texts=TEXTS * 2)
    return engine


SUB_MODELS = ["--model", "tiny", "--set", "max_length=2000", "--set", "top_k=2"]


@pytest.mark.long
def test_sub_models_are_labelled_and_trained(labeller, knowgap):
    _, err = knowgap(*train("ra-isf", *SUB_MODELS))
    assert "calls of the teacher, 0 labels from before" in err
    labels = [json.loads(line) for line in Path("new/know.jsonl").read_text().splitlines()[1:]]
    assert {label["question"][:3] for label in labels if label["label"]} == {"How"}
    assert {path.name for path in Path("new").iterdir() if path.is_dir()} == {"know", "relevant", "decompose"}
    calls = len(labeller.calls)
    assert knowgap(*train("ra-isf", *SUB_MODELS))[1].count("already exists") == 3
    assert len(labeller.calls) == calls, "labels and models are taken over"
