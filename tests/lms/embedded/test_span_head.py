"""The trained reader of spans: what it finds, where, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from knowgap.errors import CheckpointError
from knowgap.lms.embedded import span_head as module
from knowgap.lms.embedded.span_head import SpanHead, span_head, unpack_nibbles

_BRIDGE = (
    "Pont Halmay",
    "Pont Halmay is a stone bridge over the river Orne. It was built in 1732 by the engineer Ruth Calder, "
    "who also drew the plans of the town hall.",
)
_CHEESE = ("Tolvan cheese", "Tolvan is a hard cheese made from sheep's milk. It ripens for nine months in caves.")


def test_the_span_stands_where_it_says() -> None:
    passages = [_CHEESE, _BRIDGE]
    reading = span_head().read("Who built the bridge Pont Halmay?", passages)
    assert reading.spans
    for span in reading.spans:
        title, text = passages[span.passage]
        assert span.text in (title if span.start < 0 else text[span.start : span.end])
        assert 0 <= span.score <= 1
    assert [s.score for s in reading.spans] == sorted((s.score for s in reading.spans), reverse=True)


@pytest.mark.parametrize(
    ("question", "answer"),
    [("Who built the bridge Pont Halmay?", "Ruth Calder"), ("When was Pont Halmay built?", "1732")],
)
def test_it_reads_the_passage_that_answers(question: str, answer: str) -> None:
    best = span_head().read(question, [_CHEESE, _BRIDGE]).spans[0]
    assert best.passage == 1
    assert answer in best.text


def test_passages_that_do_not_answer_make_none_more_likely() -> None:
    question = "How long does Tolvan cheese ripen?"
    assert span_head().read(question, [_BRIDGE]).none > span_head().read(question, [_BRIDGE, _CHEESE]).none


@pytest.mark.parametrize(("question", "passages"), [("", [_BRIDGE]), ("Who?", []), ("Who?", [("", "")])])
def test_nothing_to_read_is_no_answer(question: str, passages: list[tuple[str, str]]) -> None:
    assert span_head().read(question, passages) == ([], 1.0)


def test_spans_of_a_passage_do_not_overlap() -> None:
    spans = [s for s in span_head().read("Who built the bridge?", [_BRIDGE]).spans if s.start >= 0]
    assert len(spans) > 1
    assert not any(a.start < b.end and b.start < a.end for i, a in enumerate(spans) for b in spans[i + 1 :])


def test_a_long_passage_is_read_to_its_end() -> None:
    filler = "The river is slow and brown in summer, and many birds nest in the reeds along its banks. " * 30
    best = span_head().read("Who built Pont Halmay?", [("", filler + _BRIDGE[1])]).spans[0]
    assert best.start > len(filler)


def test_other_passages_do_not_change_the_reading_of_one() -> None:
    alone = SpanHead().read("When was Pont Halmay built?", [_BRIDGE]).spans
    among = [s for s in SpanHead().read("When was Pont Halmay built?", [_CHEESE, _BRIDGE]).spans if s.passage == 1]
    assert [(s.text, s.start) for s in alone] == [(s.text, s.start) for s in among]
    np.testing.assert_allclose([s.score for s in alone], [s.score for s in among], atol=1e-3)


@pytest.mark.parametrize("file", ["span_head.safetensors", "span_head.json"])
@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_damaged_weights_are_refused(tmp_path: Path, file: str, damage: str) -> None:
    for name in ("span_head.safetensors", "span_head.json"):
        shutil.copy(Path(module.__file__).parent / name, tmp_path / name)
    if damage == "missing":
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:-20])
    with pytest.raises(CheckpointError):
        SpanHead(tmp_path)


def test_weights_for_another_encoder_are_refused(tmp_path: Path) -> None:
    for name in ("span_head.safetensors", "span_head.json"):
        shutil.copy(Path(module.__file__).parent / name, tmp_path / name)
    settings = json.loads((tmp_path / "span_head.json").read_text("utf-8"))
    (tmp_path / "span_head.json").write_text(json.dumps({**settings, "encoder": "0" * 64}), "utf-8")
    with pytest.raises(CheckpointError, match="another encoder"):
        SpanHead(tmp_path)


def test_four_bits_a_number() -> None:
    packed = np.array([[0x98, 0x07]], np.uint8)  # 8, 9, 7, 0
    values = unpack_nibbles(packed, np.array([[0.5, 2.0]], np.float16))
    np.testing.assert_array_equal(values, [[0.0, 0.5, -2.0, -16.0]])
