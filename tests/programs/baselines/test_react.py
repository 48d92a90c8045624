"""ReAct: thoughts, searches and observations, in the trace and in the prompts."""

import pytest
from dspy.lm15 import ContextLengthError
from support import TableRetriever

from knowgap.programs.baselines.react import ReAct
from knowgap.programs.trace.steps import Malformed, Reasoned, Shortened

FINAL = {"reasoning": "Osk directed it and was born in Tarn.", "answer": "Tarn"}


def turn(thought, tool="search", **arguments):
    return {"next_thought": thought, "next_tool_name": tool, "next_tool_args": arguments}


@pytest.fixture
def retriever(corpus):
    film, director, town, prize = corpus
    return TableRetriever({"Lanternfish director": [film, prize], "Mira Osk birthplace": [director, film, town]})


def test_thinks_searches_and_answers_from_the_trajectory(retriever, ask, kinds):
    script = [
        turn("I need the director.", query="Lanternfish director"),
        turn("Now her birthplace.", query="Mira Osk birthplace"),
        turn("That settles it.", "finish"),
    ]
    prediction, engine = ask(ReAct(retriever), {"next_thought": script, "answer": [FINAL]})
    assert prediction.answer == "Tarn"
    assert retriever.searched == ["Lanternfish director", "Mira Osk birthplace"]
    assert kinds(prediction) == [
        *["asked", *["reasoned", "queried", "retrieved"] * 2],
        *["reasoned", "stopped", "reasoned", "answered"],
    ]
    assert [passage.id for passage in prediction.passages] == ["film", "prize", "director", "town"]
    assert prediction.trace.stopped == "finished"
    assert prediction.trace.of(Reasoned)[1].text == "Now her birthplace."
    # Nothing in the first turn; the film (16 words) and the prize (13) in the second; these with the director (13),
    # the film again and the town (10) in the third, and once more for the answer.
    assert prediction.trace.cost.knowledge_tokens == 0 + 29 + 68 + 68
    seen = [inputs["trajectory"] for _, inputs in engine.calls]
    assert "nothing was searched" in seen[0]
    assert "Lanternfish: Lanternfish is a 1971 film." in seen[1]
    assert "Mira Osk was a film director" not in seen[1]
    assert seen[2] == seen[3]
    assert "I need the director." in seen[3]
    assert "Mira Osk was a film director" in seen[3]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("I would rather chat.", "unreadable turn"),
        (turn("Which?", "browse", query="x"), "unreadable turn"),
        (turn("Search."), "no query"),
        (turn("Search.", query="  "), "no query"),
    ],
)
def test_a_turn_that_leads_nowhere_ends_the_search_and_is_answered(retriever, ask, reply, reason):
    prediction, _ = ask(ReAct(retriever), {"next_thought": lambda *_: reply, "answer": [FINAL]})
    assert (prediction.answer, prediction.passages, prediction.trace.stopped) == ("Tarn", [], reason)
    assert bool(prediction.trace.of(Malformed)) == (reason == "unreadable turn")


def test_a_trajectory_too_long_for_the_model_loses_its_last_passages(retriever, ask):
    def rule(outputs, inputs):
        if inputs["trajectory"].count("Lanternfish: ") + inputs["trajectory"].count("Osk Prize: ") > 1:
            raise ContextLengthError("too long")
        return FINAL if "answer" in outputs else turn("Next.", query="Lanternfish director")

    prediction, _ = ask(ReAct(retriever, iterations=2), rule)
    assert prediction.answer == "Tarn"
    assert [step.passages for step in prediction.trace.of(Shortened)][:2] == [["prize"], ["prize", "film", "prize"]]
