"""The models that come with knowgap can be trained again: each on a few questions in the layouts of the public sets."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundled_models import reading
from bundled_models.reading_examples import read_examples
from train_bundled_models import train

from knowgap.compiling.training.config import TrainingConfig
from knowgap.errors import DataError
from knowgap.lms.embedded.span_head import SpanHead
from knowgap.retrieval import EmbeddedReranker
from tests.benchmarks.public_data import write_public_data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_public_data(tmp_path_factory.mktemp("data"))


def test_relevance_is_trained(data: Path, tmp_path: Path):
    relevance = train("relevance", data, tmp_path)
    assert relevance["pairs"] > 0
    assert EmbeddedReranker(tmp_path).default_threshold == relevance["delta"]


def test_a_reader_is_trained_on_examples_that_say_where_the_passage_answers(data: Path, tmp_path: Path, monkeypatch):
    examples = read_examples(data)
    asked = {(e.question, e.text[slice(*place)]) for e in examples for place in e.answers}
    assert ("Where was Ada Moorland born?", "Wick") in asked
    config = TrainingConfig(epochs=1, learning_rate=1e-3, batch_size=1, max_length=64)
    monkeypatch.setattr(reading, "READING_CONFIG", config)
    assert train("reading", data, tmp_path)["steps"] > 0
    head = SpanHead(tmp_path / "reading")
    assert head.candidates("Where was Ada Moorland born?", [("", "Ada Moorland was born in Wick.")])[0]


def test_a_folder_without_training_sets_is_refused(tmp_path: Path):
    for part in ("relevance", "reading"):
        with pytest.raises(DataError, match="no training file"):
            train(part, tmp_path, tmp_path / "out")
