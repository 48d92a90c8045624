"""knowgap train: a reranker is trained once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgap.retrieval import BM25Index, make_reranker
from knowgap.retrieval.passage import Passage
from tests.app.cli.conftest import Knowgap, write_lines
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
    assert "trained new in " in knowgap(*train("reranker", *words))[1]
    made = json.loads(Path("new/training.json").read_text(encoding="utf-8"))
    assert (made["made_from"]["kind"], made["steps"] > 0) == ("reranker", True)
    assert len(make_reranker("new").score([("Who built the bridge?", "Orle Bridge: Ada Venn built it.")])) == 1
    assert "trained new before" in knowgap(*train("reranker", *words))[1]
