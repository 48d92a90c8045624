"""Self-Rerank: what the model keeps, in its order, is what is read."""

import pytest
from support import TableRetriever

from knowgap.programs.baselines.self_rerank import SelfRerank
from knowgap.programs.trace.steps import Filtered, Malformed

QUESTION = "Where was the director of Lanternfish born?"


@pytest.mark.parametrize(
    ("ids", "kept", "dropped"),
    [
        ([2, 1], ["director", "film"], ["town", "prize"]),
        ([2, 2, 9, 0, -1], ["director"], ["film", "town", "prize"]),
        ([], [], ["film", "director", "town", "prize"]),
        ("mumble", ["film", "director", "town", "prize"], []),
    ],
)
def test_reads_what_the_model_keeps(corpus, ask, kinds, ids, kept, dropped):
    reply = ids if isinstance(ids, str) else {"relevant_ids": ids}
    script = {"relevant_ids": lambda *_: reply, "answer": [{"answer": "Tarn"}]}
    prediction, engine = ask(SelfRerank(TableRetriever({QUESTION: corpus})), script)
    assert prediction.answer == "Tarn"
    assert [passage.id for passage in prediction.passages] == kept
    step = prediction.trace.of(Filtered)[0]
    assert (step.kept, step.dropped) == (kept, dropped)
    titles = {passage.id: passage.title for passage in corpus}
    assert [p["title"] for p in engine.calls[-1][1]["passages"]] == [titles[i] for i in kept]
    assert bool(prediction.trace.of(Malformed)) == isinstance(ids, str)
    assert [kind for kind in kinds(prediction) if kind != "malformed"] == ["asked", "retrieved", "filtered", "answered"]
    assert prediction.trace.cost.passages == 4


def test_top_k(corpus, ask):
    script = {"relevant_ids": [{"relevant_ids": [1, 2, 3]}], "answer": [{"answer": "Tarn"}]}
    prediction, _ = ask(SelfRerank(TableRetriever({QUESTION: corpus}), top_k=2), script)
    assert [passage.id for passage in prediction.passages] == ["film", "director"]


def test_nothing_found_is_not_ranked(ask):
    prediction, engine = ask(SelfRerank(TableRetriever({})), {"answer": [{"answer": "?"}]})
    assert prediction.answer == "?"
    assert len(engine.calls) == 1
