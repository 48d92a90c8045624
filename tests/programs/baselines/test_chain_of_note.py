"""Chain-of-Note: notes and answer from one call."""

import pytest
from support import OverlapRetriever, TableRetriever

from knowgap.programs.baselines.chain_of_note import ChainOfNote
from knowgap.programs.trace.steps import Malformed, Noted
from knowgap.signatures import STYLES

REPLY = {"note": "1: Osk directed it. 2: Osk was born in Tarn. So: Tarn.", "answer": " Tarn "}


def test_notes_then_answer(corpus, ask, kinds):
    prediction, engine = ask(ChainOfNote(OverlapRetriever(corpus), style="long"), lambda *_: REPLY)
    assert (prediction.answer, prediction.note) == ("Tarn", REPLY["note"])
    assert kinds(prediction) == ["asked", "retrieved", "noted", "answered"]
    ids = [passage.id for passage in prediction.passages]
    assert prediction.trace.of(Noted)[0].passages == ids
    assert [outputs for outputs, _ in engine.calls] == [("note", "answer")]
    assert [p["title"] for p in engine.calls[0][1]["passages"]] == [passage.title for passage in prediction.passages]
    assert engine.calls[0][1]["style"] == STYLES["long"]
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.retrievals, cost.passages) == (1, 1, len(ids))


@pytest.mark.parametrize("top_k", [1, 3])
def test_top_k(corpus, ask, top_k):
    prediction, _ = ask(ChainOfNote(OverlapRetriever(corpus), top_k=top_k), lambda *_: REPLY)
    assert len(prediction.passages) == top_k


def test_unreadable_and_nothing_found(ask):
    prediction, _ = ask(ChainOfNote(TableRetriever({})), lambda *_: "mumble")
    assert (prediction.answer, prediction.note, prediction.passages) == ("", "", [])
    assert prediction.trace.of(Malformed)[0].act == "answer"
