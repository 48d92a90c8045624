"""The span head is trained, continued after a kill, and exported; the ranking of its spans is fitted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from knowgap.compiling.training.config import TrainingConfig
from knowgap.compiling.training.embedded import reading
from knowgap.compiling.training.embedded.reading import (
    READING_CONFIG,
    ReadingSettings,
    plan_reading,
    split,
    train_reading,
)
from knowgap.compiling.training.embedded.reading_examples import read_examples
from knowgap.compiling.training.embedded.reading_ranking import RankingExample, ranking_examples, train_ranking
from knowgap.compiling.training.embedded.reading_weights import pack_nibbles
from knowgap.errors import DataError
from knowgap.lms.embedded import span_head as span_head_module
from knowgap.lms.embedded.inputs import read_passage
from knowgap.lms.embedded.reading import features
from knowgap.lms.embedded.span_head import SpanHead, joined
from knowgap.retrieval.minilm import unpack_nibbles
from knowgap.storage.files import write_json
from tests.compile.training.embedded.public_data import write_public_data

CONFIG = TrainingConfig(epochs=3, learning_rate=1e-3, batch_size=1, max_length=64)
SETTINGS = ReadingSettings(frozen_layers=5, tokens_per_batch=128)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_public_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def more_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_RANKED_ON", 8)
    monkeypatch.setattr(reading, "_MEASURED_ON", 4)
    monkeypatch.setattr(reading, "_HELD_OUT", 0.4)


def test_examples_say_where_the_passage_answers(data: Path) -> None:
    examples = read_examples(data)
    assert {e.source for e in examples} == {"new_wiki", "2wiki", "hotpot"}
    asked = {(e.question, e.text[slice(*place)]) for e in examples for place in e.answers}
    assert ("Where was Ada Moorland born?", "Wick") in asked
    assert ("Which town is the birthplace of Bo Reedham?", "Tarn") in asked
    towns = dict(asked)
    for e in examples:
        if not e.answers:
            assert towns[e.question] not in e.text


def test_what_is_held_out_is_not_trained_on(data: Path) -> None:
    parts = split(read_examples(data), 0.4)
    assert parts.train
    assert parts.held_out
    assert not {e.group for e in parts.train} & {e.group for e in parts.held_out}
    assert not {e.text for e in parts.train} & {e.text for e in parts.held_out}


def test_targets_stand_on_the_answer(data: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(reading.minilm_folder()))
    examples = [e for e in read_examples(data) if e.answers]
    made = reading.features(tokenizer, examples, READING_CONFIG, ReadingSettings(unmarked=0, untitled=0))
    for example, feature in zip(examples, made, strict=True):
        (first,), (last,) = feature.starts, feature.ends
        words = tokenizer.decode(feature.ids[first : last + 1])
        assert words == example.text[slice(*example.answers[0])].lower()
        assert (
            joined(example.title, example.text).lower().startswith(tokenizer.decode(feature.ids[feature.first :])[:8])
        )


def test_a_run_writes_a_head_that_reads_and_is_not_repeated(data: Path, tmp_path: Path) -> None:
    result, measures = train_reading(data, tmp_path / "head", config=CONFIG, settings=SETTINGS)
    assert result.steps > 2
    assert measures.questions
    assert 0 <= measures.exact_match <= measures.f1 <= 1
    head = SpanHead(tmp_path / "head")
    assert head.candidates("Where was Ada Moorland born?", [("", "Ada Moorland was born in Wick.")])[0]
    assert head.ranking is not None
    assert np.abs(head.ranking.hidden).max() > 0
    again, same = train_reading(data, tmp_path / "head", config=CONFIG, settings=SETTINGS)
    assert again.trained_before
    assert same == measures


def test_a_ranking_is_fitted_to_whole_questions_sub_questions_and_held_out_ones(data: Path) -> None:
    held_out = [e for e in read_examples(data) if e.source == "new_wiki"]
    examples = ranking_examples(data, held_out, 1000)
    assert {e.question for e in held_out if e.answers} <= {e.question for e in examples}
    asked = {e.question for e in examples}
    assert {e.question for e in read_examples(data) if e.source in ("2wiki", "hotpot")} <= asked
    assert all(answer.casefold() not in ("yes", "no") for e in examples for answer in e.answers)
    assert len(ranking_examples(data, held_out, 1)) == 3


def test_a_ranking_learns_to_prefer_what_answers_and_to_say_that_nothing_does(tmp_path: Path) -> None:
    for name in ("span_head.safetensors", "span_head.json"):
        shutil.copy(Path(span_head_module.__file__).parent / name, tmp_path / name)
    settings = json.loads((tmp_path / "span_head.json").read_text("utf-8"))
    write_json(tmp_path / "span_head.json", {name: settings[name] for name in ("encoder", "sha256")})
    assert SpanHead(tmp_path).ranking is None
    people = ("Ada Moorland", "Bo Reedham", "Cy Thorn", "Di Vance", "Ed Lowe", "Flo Marsh")
    examples = [
        RankingExample(f"Where was {name} born?", ((name, f"{name} was born in {town}. {name} fished."),), (town,))
        for name, town in zip(people, ("Wick", "Tarn", "Moss", "Brae", "Holt", "Fenn"), strict=True)
    ]
    train_ranking(tmp_path, examples * 40)
    first = (tmp_path / "span_head.json").read_text()
    train_ranking(tmp_path, examples * 40)
    assert (tmp_path / "span_head.json").read_text() == first
    head = SpanHead(tmp_path)
    assert head.ranking is not None
    for text, answered in (("Gil Yarrow was born in Orle. He sang.", True), ("He sang to the birds.", False)):
        spans, matrix = features("Where was Gil Yarrow born?", read_passage("Gil Yarrow", text), head)
        best = int(head.ranking.logits(matrix).argmax())
        assert (best < len(spans)) is answered
        assert not answered or spans[best][0] == "Orle"


def test_a_run_that_was_interrupted_ends_with_the_same_weights(data: Path, tmp_path: Path) -> None:
    def interrupt(done: int, total: int, text: str) -> None:
        if done == total - 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_reading(data, tmp_path / "a", config=CONFIG, settings=SETTINGS, progress=interrupt)
    continued, _ = train_reading(data, tmp_path / "a", config=CONFIG, settings=SETTINGS)
    whole, _ = train_reading(data, tmp_path / "b", config=CONFIG, settings=SETTINGS)
    assert continued.resumed_from > 0
    assert continued.steps == whole.steps
    assert (tmp_path / "a" / "span_head.json").read_text() == (tmp_path / "b" / "span_head.json").read_text()


def test_a_plan_counts_examples_and_steps(data: Path) -> None:
    plan = plan_reading(data, CONFIG, SETTINGS)
    assert plan.examples == len(split(read_examples(data), 0.4).train)
    assert plan.steps > 2
    assert plan.hours


def test_four_bits_keep_a_matrix_close() -> None:
    matrix = np.random.default_rng(0).normal(size=(8, 128)).astype(np.float32)
    restored = unpack_nibbles(*pack_nibbles(matrix))
    assert restored.shape == matrix.shape
    assert np.abs(restored - matrix).mean() < 0.15
    np.testing.assert_array_equal(unpack_nibbles(*pack_nibbles(np.zeros((2, 64), np.float32))), np.zeros((2, 64)))


def test_no_data_and_damaged_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no training file"):
        read_examples(tmp_path)
    (tmp_path / "squadshifts_x.json").write_text('{"data": [{"paragraphs": 3}]}', "utf-8")
    with pytest.raises(DataError, match="not in its layout"):
        read_examples(tmp_path)
