"""IRCoT: one sentence, one retrieval, and a reader at the end."""

import pytest
from support import OverlapRetriever, TableRetriever

from knowgap.programs.baselines.ircot import IRCoT
from knowgap.programs.trace.steps import Malformed, Queried, Reasoned

QUESTION = "Where was the director of Lanternfish born?"
ONE, TWO = "Lanternfish was directed by Mira Osk.", "Mira Osk was born in Tarn."
READER = {"reasoning": "Osk was born in Tarn.", "answer": "Tarn"}


@pytest.fixture
def retriever(corpus):
    film, director, town, prize = corpus
    return TableRetriever({QUESTION: [film, prize], ONE: [director, film], TWO: [town]})


def script(*steps, reader=READER):
    """Steps are sentences with the answer they arrive at; the reader is told apart by its style."""
    remaining = list(steps)

    def rule(outputs, inputs):
        if "style" in inputs:
            return reader
        step = remaining.pop(0)
        return step if isinstance(step, str) else {"reasoning": step[0], "answer": step[1]}

    return rule


def test_each_sentence_is_the_next_query(retriever, ask, kinds):
    prediction, engine = ask(IRCoT(retriever), script((ONE, ""), (TWO, "Tarn")))
    assert (prediction.answer, prediction.reasoning) == ("Tarn", READER["reasoning"])
    assert prediction.chain == [ONE, TWO]
    assert retriever.searched == [QUESTION, ONE]
    assert [passage.id for passage in prediction.passages] == ["film", "prize", "director"]
    assert kinds(prediction) == [
        *["asked", "retrieved", "reasoned", "queried", "retrieved", "reasoned"],
        *["stopped", "reasoned", "answered"],
    ]
    assert prediction.trace.stopped == "answered"
    assert [inputs.get("known") for _, inputs in engine.calls] == [[], [ONE], None]
    assert [len(inputs["passages"]) for _, inputs in engine.calls] == [2, 3, 3]
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.iterations, cost.passages) == (3, 3, 2, 2, 3)


def test_sentences_and_passages_are_limited(corpus, ask):
    numbers = iter(range(99))

    def rule(outputs, inputs):
        return READER if "style" in inputs else {"reasoning": f"Tarn has {next(numbers)} lighthouses.", "answer": ""}

    program = IRCoT(OverlapRetriever(corpus), iterations=3, top_k=2, max_collected=2)
    prediction, engine = ask(program, rule)
    assert prediction.trace.stopped == "iterations"
    assert prediction.answer == "Tarn"
    assert len(engine.calls) == 4
    assert prediction.trace.cost.retrievals == 3
    assert len(prediction.trace.of(Queried)) == 2
    assert len(prediction.passages) == 2


@pytest.mark.parametrize(
    ("second", "reason"),
    [((ONE, ""), "repeated sentence"), (("", ""), "no sentence"), ("mumble", "no sentence")],
)
def test_a_sentence_that_adds_nothing_ends_the_reasoning(retriever, ask, second, reason):
    steps = [(ONE, ""), second, second]  # an unreadable reply is asked for once more, in another format
    prediction, _ = ask(IRCoT(retriever), script(*steps))
    assert prediction.trace.stopped == reason
    assert prediction.chain == [ONE]
    assert bool(prediction.trace.of(Malformed)) == (second == "mumble")
    assert prediction.answer == "Tarn"


def test_nothing_retrieved(ask):
    prediction, _ = ask(IRCoT(TableRetriever({})), script((ONE, "x"), reader={"reasoning": "r", "answer": "?"}))
    assert prediction.passages == []
    assert prediction.answer == "?"
    assert [step.text for step in prediction.trace.of(Reasoned)] == [ONE, "r"]


def test_unreadable_reader(retriever, ask):
    prediction, _ = ask(IRCoT(retriever), script((ONE, "x"), reader="mumble"))
    assert prediction.answer == ""
    assert prediction.trace.of(Malformed)[0].act == "reader"
