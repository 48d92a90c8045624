"""The trained reader of spans: what it finds, where, and what it refuses."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from knowgap.errors import CheckpointError
from knowgap.lms.embedded import span_head as module
from knowgap.lms.embedded.span_head import SpanHead, span_head
from knowgap.retrieval.bert import unpack_nibbles

_BRIDGE = (
    "Pont Halmay",
    "Pont Halmay is a stone bridge over the river Orne. It was built in 1732 by the engineer Ruth Calder, "
    "who also drew the plans of the town hall.",
)
_CHEESE = ("Tolvan cheese", "Tolvan is a hard cheese made from sheep's milk. It ripens for nine months in caves.")


def test_the_span_stands_where_it_says() -> None:
    passages = [_CHEESE, _BRIDGE]
    read = span_head().candidates("Who built the bridge Pont Halmay?", passages)
    for (title, text), candidates in zip(passages, read, strict=True):
        assert candidates
        assert all(c.text in (title if c.start < 0 else text[c.start : c.end]) for c in candidates)
        assert [c.margin for c in candidates] == sorted((c.margin for c in candidates), reverse=True)


def test_it_reads_the_passage_that_answers() -> None:
    for question, answer in (
        ("Who built the bridge Pont Halmay?", "Ruth Calder"),
        ("When was Pont Halmay built?", "1732"),
    ):
        cheese, bridge = span_head().candidates(question, [_CHEESE, _BRIDGE])
        assert bridge[0].margin > 0 > cheese[0].margin
        assert answer in bridge[0].text


def test_nothing_to_read_is_no_answer() -> None:
    for question, passages, expected in (("", [_BRIDGE], [[]]), ("Who?", [], []), ("Who?", [("", "")], [[]])):
        assert span_head().candidates(question, passages) == expected


def test_questions_and_passages_of_any_length() -> None:
    filler = "The river is slow and brown in summer, and many birds nest in the reeds along its banks. " * 30
    [found] = span_head().candidates("Who built Pont Halmay?", [("", filler + _BRIDGE[1])])
    assert found[0].start > len(filler)
    for question in ("Who built it? " * 200, "誰" * 3000, "\u202e" * 500):
        assert span_head().candidates(question, [_BRIDGE])[0]


def test_weights_for_another_encoder_are_refused(tmp_path: Path) -> None:
    for name in ("span_head.safetensors", "span_head.json"):
        shutil.copy(Path(module.__file__).parent / name, tmp_path / name)
    settings = tmp_path / "span_head.json"
    settings.write_text(re.sub("[0-9a-f]{64}", "0" * 64, settings.read_text(), count=1))
    with pytest.raises(CheckpointError):
        SpanHead(tmp_path)


def test_four_bits_a_number() -> None:
    packed = np.array([[0x98, 0x07]], np.uint8)  # 8, 9, 7, 0
    values = unpack_nibbles(packed, np.array([[0.5, 2.0]], np.float16))
    np.testing.assert_array_equal(values, [[0.0, 0.5, -2.0, -16.0]])
