"""The trained reader of spans: what it finds, where, and what it refuses."""

import re
import shutil
from pathlib import Path

import pytest

from knowgap.errors import CheckpointError
from knowgap.lms.embedded import span_head as module
from knowgap.lms.embedded.span_head import SpanHead, span_head

_BRIDGE = (
    "Pont Halmay",
    "Pont Halmay is a stone bridge over the river Orne. It was built in 1732 by the engineer Ruth Calder, "
    "who also drew the plans of the town hall.",
)
_CHEESE = ("Tolvan cheese", "Tolvan is a hard cheese made from sheep's milk. It ripens for nine months in caves.")


@pytest.mark.parametrize(
    ("question", "answer"),
    [("Who built the bridge Pont Halmay?", "Ruth Calder"), ("When was Pont Halmay built?", "1732")],
)
def test_it_reads_the_passage_that_answers_and_the_span_stands_where_it_says(question, answer):
    cheese, bridge = span_head().candidates(question, [_CHEESE, _BRIDGE])
    assert bridge[0].margin > 0 > cheese[0].margin
    assert answer in bridge[0].text
    for (title, text), candidates in ((_CHEESE, cheese), (_BRIDGE, bridge)):
        assert all(c.text in (title if c.start < 0 else text[c.start : c.end]) for c in candidates)
        assert [c.margin for c in candidates] == sorted((c.margin for c in candidates), reverse=True)


def test_nothing_to_read_is_no_answer():
    for question, passages, expected in (("", [_BRIDGE], [[]]), ("Who?", [], []), ("Who?", [("", "")], [[]])):
        assert span_head().candidates(question, passages) == expected


def test_questions_and_passages_of_any_length():
    filler = "The river is slow and brown in summer, and many birds nest in the reeds along its banks. " * 30
    [found] = span_head().candidates("Who built Pont Halmay?", [("", filler + _BRIDGE[1])])
    assert found[0].start > len(filler)
    for question in ("Who built it? " * 200, "誰" * 3000, "\u202e" * 500, "Who built it \ud83d?"):
        assert span_head().candidates(question, [_BRIDGE])[0]
    half, marked = (span_head().candidates("Who built it?", [("", _BRIDGE[1] + end)]) for end in ("\ud83d", "?"))
    assert [c.start for c in half[0]] == [c.start for c in marked[0]]


def test_weights_for_another_encoder_are_refused(tmp_path):
    for name in ("span_head.safetensors", "span_head.json"):
        shutil.copy(Path(module.__file__).parent / name, tmp_path / name)
    settings = tmp_path / "span_head.json"
    settings.write_text(re.sub("[0-9a-f]{64}", "0" * 64, settings.read_text(), count=1))
    with pytest.raises(CheckpointError):
        SpanHead(tmp_path)
