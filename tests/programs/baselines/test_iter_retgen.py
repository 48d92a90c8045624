"""ITER-RETGEN: the output of one round is the query of the next."""

import pytest
from support import OverlapRetriever, TableRetriever

from knowgap.programs.baselines.iter_retgen import IterRetGen
from knowgap.programs.trace.steps import Answered, Malformed, Queried

QUESTION = "Where was the director of Lanternfish born?"
FIRST = {"reasoning": "Lanternfish was directed by Mira Osk.", "answer": "unknown"}
SECOND = {"reasoning": "Mira Osk was born in Tarn.", "answer": "Tarn"}
QUERY = f"{FIRST['reasoning']} {FIRST['answer']} {QUESTION}"


@pytest.fixture
def retriever(corpus):
    film, director, town, _ = corpus
    return TableRetriever({QUESTION: [film, town], QUERY: [director, film]})


def test_retrieves_again_with_what_was_written(retriever, ask, kinds):
    prediction, engine = ask(IterRetGen(retriever), {"answer": [FIRST, SECOND]})
    assert (prediction.answer, prediction.reasoning) == ("Tarn", SECOND["reasoning"])
    assert retriever.searched == [QUESTION, QUERY]
    assert [passage.id for passage in prediction.passages] == ["director", "film"]
    assert kinds(prediction) == [
        *["asked", "retrieved", "reasoned", "answered"],
        *["queried", "retrieved", "reasoned", "answered"],
        "stopped",
    ]
    assert [step.answer for step in prediction.trace.of(Answered)] == ["unknown", "Tarn"]
    assert all(inputs["question"] == QUESTION for _, inputs in engine.calls)
    assert [p["title"] for p in engine.calls[1][1]["passages"]] == ["Mira Osk", "Lanternfish"]
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.iterations, cost.passages) == (2, 2, 2, 2, 3)


@pytest.mark.parametrize("iterations", [1, 4])
def test_runs_the_rounds_it_is_given(corpus, ask, iterations):
    prediction, engine = ask(IterRetGen(OverlapRetriever(corpus), iterations=iterations), lambda *_: SECOND)
    assert len(engine.calls) == prediction.trace.cost.retrievals == iterations
    assert len(prediction.trace.of(Queried)) == iterations - 1


def test_top_k(corpus, ask):
    prediction, engine = ask(IterRetGen(OverlapRetriever(corpus), top_k=1), lambda *_: SECOND)
    assert [len(inputs["passages"]) for _, inputs in engine.calls] == [1, 1]
    assert len(prediction.passages) == 1


def test_an_unreadable_round_leaves_the_answer_of_the_one_before(retriever, ask):
    replies = iter([FIRST])
    prediction, _ = ask(IterRetGen(retriever), lambda *_: next(replies, "mumble"))
    assert len(prediction.trace.of(Malformed)) == 1
    assert (prediction.answer, prediction.reasoning) == ("unknown", FIRST["reasoning"])


def test_nothing_readable_at_all_searches_with_the_question(retriever, ask):
    prediction, _ = ask(IterRetGen(retriever), lambda *_: "mumble")
    assert prediction.answer == ""
    assert retriever.searched == [QUESTION, QUESTION]
