"""ReAct: thoughts, searches and observations, in the trace and in the prompts."""

import dspy
import pytest
from dspy.lm15 import ContextLengthError
from support import TableRetriever

from knowgap.programs.baselines.react import ReAct
from knowgap.programs.replies.long_prompts import warn_of_window
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
    assert "[1] Lanternfish: Lanternfish is a 1971 film." in seen[1]
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


def test_a_trajectory_too_long_for_the_model_loses_its_oldest_turns(retriever, ask, caplog):
    def rule(outputs, inputs):
        trajectory = inputs["trajectory"]
        if trajectory.count("Thought:") > 1:
            raise ContextLengthError("too long")
        if "answer" in outputs:
            return FINAL
        if "birthplace" in trajectory:
            return turn("Done.", "finish")
        query = "Mira Osk birthplace" if "Lanternfish director" in trajectory else "Lanternfish director"
        return turn("Next.", query=query)

    warn_of_window.cache_clear()
    prediction, engine = ask(ReAct(retriever), rule)
    assert prediction.answer == "Tarn"
    assert "Lanternfish director" not in engine.calls[-1][1]["trajectory"]
    assert "Mira Osk birthplace" in engine.calls[-1][1]["trajectory"]
    left_out = [(step.act, step.passages) for step in prediction.trace.of(Shortened)]
    assert left_out == [("turn", ["film", "prize"]), ("extract", ["film", "prize"])]
    assert "a prompt of react (turn) is longer than the context window" in caplog.text

    def never(outputs, inputs):
        raise ContextLengthError("too long")

    with pytest.raises(dspy.ContextWindowExceededError):
        ask(ReAct(retriever), never)
