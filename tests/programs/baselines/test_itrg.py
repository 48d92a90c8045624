"""ITRG: document and retrieval by turns, refreshed or refined."""

import pytest
from support import OverlapRetriever, TableRetriever

from knowgap.programs.baselines.itrg import ITRG
from knowgap.programs.trace.steps import Malformed, Noted, Queried

QUESTION = "Where was the director of Lanternfish born?"
ONE, TWO = "Mira Osk directed Lanternfish.", "Mira Osk was born in Tarn."


@pytest.fixture
def retriever(corpus):
    film, director, town, _ = corpus
    return TableRetriever({QUESTION: [film], f"{ONE} {QUESTION}": [director, town]})


def script(*notes):
    return {"note": [{"note": note} for note in notes], "answer": [{"answer": "Tarn"}]}


@pytest.mark.parametrize(
    ("strategy", "sources", "previous"),
    [("refresh", ["director", "town"], None), ("refine", ["film", "director", "town"], ONE)],
)
def test_the_document_widens_the_next_query(retriever, ask, kinds, strategy, sources, previous):
    prediction, engine = ask(ITRG(retriever, iterations=2, strategy=strategy), script(ONE, TWO))
    assert (prediction.answer, prediction.note) == ("Tarn", TWO)
    assert retriever.searched == [QUESTION, f"{ONE} {QUESTION}"]
    assert [passage.id for passage in prediction.passages] == sources
    assert kinds(prediction) == ["asked", "retrieved", "noted", "queried", "retrieved", "noted", "stopped", "answered"]
    assert [inputs.get("best_note") for _, inputs in engine.calls] == [None, previous, None]
    assert engine.calls[-1][1]["note"] == TWO
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.iterations, cost.passages) == (3, 3, 2, 2, 3)


def test_rounds_and_passages(corpus, ask):
    prediction, engine = ask(
        ITRG(OverlapRetriever(corpus), iterations=3, top_k=1), lambda *_: {"note": "n", "answer": "a"}
    )
    assert prediction.trace.cost.retrievals == 3
    assert len(engine.calls) == 4
    assert [len(step.passages) for step in prediction.trace.of(Noted)] == [1, 1, 1]


@pytest.mark.parametrize("strategy", ["refresh", "refine"])
def test_an_unreadable_document_leaves_the_one_before(retriever, ask, strategy):
    replies = iter([{"note": ONE}])
    rule = {"note": lambda *_: next(replies, "mumble"), "answer": [{"answer": "Tarn"}]}
    prediction, _ = ask(ITRG(retriever, iterations=2, strategy=strategy), rule)
    assert prediction.note == ONE
    assert [passage.id for passage in prediction.passages] == ["film"]
    assert prediction.trace.of(Malformed)[0].act == ("refine" if strategy == "refine" else "refresh")


def test_without_a_document_the_question_searches_again(retriever, ask):
    prediction, _ = ask(ITRG(retriever, iterations=2), {"note": lambda *_: {"note": ""}, "answer": [{"answer": "?"}]})
    assert retriever.searched == [QUESTION, QUESTION]
    assert prediction.trace.of(Queried) == []
    assert (prediction.answer, prediction.passages) == ("?", [])
