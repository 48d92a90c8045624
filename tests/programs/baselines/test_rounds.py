"""Baselines that retrieve and generate in rounds: ITER-RETGEN, IRCoT."""

import pytest
from support import OverlapRetriever, TableRetriever

from knowgap.programs.baselines.ircot import IRCoT
from knowgap.programs.baselines.iter_retgen import IterRetGen
from knowgap.programs.trace.steps import Answered, Malformed, Queried

QUESTION = "Where was the director of Lanternfish born?"
ONE, TWO = "Mira Osk directed Lanternfish.", "Mira Osk was born in Tarn."
FIRST, SECOND = {"reasoning": ONE, "answer": "unknown"}, {"reasoning": TWO, "answer": "Tarn"}
READER = {"reasoning": "So it is Tarn.", "answer": "Tarn"}


@pytest.fixture
def retriever(corpus):
    film, director, town, prize = corpus
    later = [director, film]
    return TableRetriever(
        {
            QUESTION: [film, prize],
            ONE: later,
            TWO: [town],
            f"{ONE} {QUESTION}": [director, town],
            f"{ONE} unknown {QUESTION}": later,
        }
    )


def ids(passages):
    return [passage.id for passage in passages]


def test_iter_retgen_searches_with_the_last_output(retriever, ask, kinds):
    prediction, engine = ask(IterRetGen(retriever), {"answer": [FIRST, SECOND]})
    assert (prediction.answer, prediction.reasoning) == ("Tarn", TWO)
    assert retriever.searched == [QUESTION, f"{ONE} unknown {QUESTION}"]
    assert ids(prediction.passages) == ["director", "film"]
    assert kinds(prediction) == [
        *["asked", "retrieved", "reasoned", "answered"],
        *["queried", "retrieved", "reasoned", "answered", "stopped"],
    ]
    assert [step.answer for step in prediction.trace.of(Answered)] == ["unknown", "Tarn"]
    assert [p["title"] for p in engine.calls[1][1]["passages"]] == ["Mira Osk", "Lanternfish"]


def chain(*steps, reader=READER):
    """IRCoT's sentences with the answers they arrive at; the reader is told apart by its style."""
    remaining = list(steps)

    def rule(outputs, inputs):
        if "style" in inputs:
            return reader
        step = remaining.pop(0)
        return step if isinstance(step, str) else {"reasoning": step[0], "finished": bool(step[1])}

    return rule


def test_ircot_searches_with_each_sentence(retriever, ask, kinds):
    prediction, engine = ask(IRCoT(retriever), chain((ONE, ""), (TWO, "Tarn")))
    assert (prediction.answer, prediction.reasoning, prediction.chain) == ("Tarn", READER["reasoning"], [ONE, TWO])
    assert retriever.searched == [QUESTION, ONE]
    assert ids(prediction.passages) == ["film", "prize", "director"]
    assert kinds(prediction) == [
        *["asked", "retrieved", "reasoned", "queried", "retrieved", "reasoned"],
        *["stopped", "reasoned", "answered"],
    ]
    assert prediction.trace.stopped == "answered"
    assert [inputs.get("known") for _, inputs in engine.calls] == [[], [ONE], None]
    assert [len(inputs["passages"]) for _, inputs in engine.calls] == [2, 3, 3]


def test_ircot_limits_sentences_and_passages(corpus, ask):
    sentences = [(f"Tarn has {number} lighthouses.", "") for number in range(3)]
    program = IRCoT(OverlapRetriever(corpus), iterations=3, top_k=2, max_collected=2)
    prediction, engine = ask(program, chain(*sentences))
    assert (prediction.answer, prediction.trace.stopped) == ("Tarn", "iterations")
    assert (len(engine.calls), prediction.trace.cost.retrievals, len(prediction.passages)) == (4, 3, 2)
    assert len(prediction.trace.of(Queried)) == 2, "the last sentence is not searched for"


@pytest.mark.parametrize(
    ("second", "reason"),
    [((ONE, ""), "repeated sentence"), (("", ""), "no sentence"), ("[[ mumble", "no sentence")],
)
def test_ircot_ends_with_a_sentence_that_adds_nothing(retriever, ask, second, reason):
    steps = [(ONE, ""), second, second]  # an unreadable reply is asked for once more, in another format
    prediction, _ = ask(IRCoT(retriever), chain(*steps))
    assert (prediction.trace.stopped, prediction.chain, prediction.answer) == (reason, [ONE], "Tarn")
    assert bool(prediction.trace.of(Malformed)) == (second == "[[ mumble")
