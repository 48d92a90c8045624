"""SUMM and SNIPPET: what the model makes of each passage is what is read."""

import pytest
from support import TableReranker, TableRetriever

from knowgap.programs.baselines.snippet import Snippet
from knowgap.programs.baselines.summ import Summ
from knowgap.programs.trace.steps import Compressed, Malformed, Reranked
from knowgap.retrieval.passage import Passage

QUESTION = "Where was Mira Osk born?"
CORPUS = [Passage(f"p{n}", f"Town {n}", f"Text {n}.") for n in range(9)]


def reranker():
    """Higher numbers score higher: the reranker turns the retriever's order round."""
    return TableReranker(lambda query, text: float(text.removesuffix(".").split()[-1]))


def rule(irrelevant=(), unreadable=()):
    def reply(outputs, inputs):
        if "answer" in outputs:
            return {"answer": "Tarn"}
        number = int(inputs["passage"].removesuffix(".").split()[-1])
        assert inputs["question"] == QUESTION
        if number in unreadable:
            return "mumble"
        return {outputs[0]: "Irrelevant." if number in irrelevant else f"{outputs[0]} of {number}"}

    return reply


@pytest.fixture(params=[Summ, Snippet])
def program(request):
    def make(**kwargs):
        return request.param(TableRetriever({QUESTION: CORPUS}), reranker=reranker(), **kwargs)

    return make


def test_compresses_best_first_until_enough_are_relevant(program, ask, kinds):
    made = program(top_k=2)
    how = "summary" if made.name == "summ" else "snippet"
    prediction, engine = ask(made, rule(irrelevant=[8, 6], unreadable=[5]), QUESTION)
    assert prediction.answer == "Tarn"
    assert [passage.id for passage in prediction.passages] == ["p7", "p4"]
    assert prediction.passages[0].text == "Text 7."
    assert [p["text"] for p in engine.calls[-1][1]["passages"]] == [f"{how} of 7", f"{how} of 4"]
    assert [(step.how, step.passage) for step in prediction.trace.of(Compressed)] == [(how, "p7"), (how, "p4")]
    assert prediction.trace.of(Malformed)[0].act == "compress"
    assert prediction.trace.of(Reranked)[0].threshold is None
    assert kinds(prediction)[:3] == ["asked", "retrieved", "reranked"]
    cost = prediction.trace.cost
    # Two at a time: 8 and 7, 6 and 5 (asked for twice, as it could not be read), 4 and 3; then the answer.
    assert (cost.lm_calls, cost.retrievals, cost.passages) == (8, 1, 6)
    assert cost.critical_calls == 5
    # Four words in each passage that is compressed, five in what two of them come to.
    assert cost.knowledge_tokens == 7 * 4 + 2 * 5


def test_what_is_compressed_is_limited(program, ask):
    prediction, engine = ask(program(top_k=2, compressed=3), rule(irrelevant=range(9)), QUESTION)
    assert len(engine.calls) == 4
    assert engine.calls[-1][1]["passages"] == []
    assert (prediction.answer, prediction.passages) == ("Tarn", [])


def test_retrieve_k(program, ask):
    prediction, _ = ask(program(retrieve_k=3), rule(), QUESTION)
    assert [passage.id for passage in prediction.passages] == ["p2", "p1", "p0"]


def test_one_by_one_gives_the_same(program, ask):
    one, _ = ask(program(concurrent=False), rule(irrelevant=[7]), QUESTION)
    two, _ = ask(program(), rule(irrelevant=[7]), QUESTION)
    assert one.passages == two.passages
    assert one.trace.cost.critical_calls == one.trace.cost.lm_calls > two.trace.cost.critical_calls


def test_nothing_found_and_nothing_readable(ask):
    prediction, engine = ask(Summ(TableRetriever({}), reranker=reranker()), lambda *_: "mumble", QUESTION)
    assert (prediction.answer, prediction.passages) == ("", [])
    assert all("answer" in outputs for outputs, _ in engine.calls)
