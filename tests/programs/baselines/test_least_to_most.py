"""Least-to-Most: simpler questions first."""

import pytest

from knowgap.programs.baselines.least_to_most import LeastToMost
from knowgap.programs.trace.steps import Answered, Decomposed, Malformed
from knowgap.signatures import STYLES

QUESTION = "Where was the director of Lanternfish born?"
WHO, WHERE = "Who directed Lanternfish?", "Where was that person born?"


def test_each_answer_helps_with_the_next(ask, kinds):
    script = {
        "questions": [{"questions": [WHO, WHERE]}],
        "answer": [{"answer": "Mira Osk"}, {"answer": "Tarn"}, {"answer": "in Tarn"}],
    }
    prediction, engine = ask(LeastToMost(style="news"), script)
    assert prediction.answer == "in Tarn"
    assert prediction.passages == []
    assert kinds(prediction) == ["asked", "decomposed", "answered", "answered", "answered"]
    known = [
        {"question": WHO, "answer": "Mira Osk"},
        {"question": WHERE, "answer": "Tarn"},
    ]
    asked = [(i["question"], i["sub_answers"], i["style"]) for _, i in engine.calls[1:]]
    short, news = STYLES["short"], STYLES["news"]
    assert asked == [(WHO, [], short), (WHERE, known[:1], short), (QUESTION, known, news)]
    assert [sub.model_dump() for sub in prediction.sub_answers] == known
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.passages) == (4, 4, 0, 0)


def test_simpler_questions_are_limited_and_never_the_question_itself(ask):
    many = [WHO, QUESTION.upper(), WHO, *(f"Question {n}?" for n in range(9))]
    script = {"questions": [{"questions": many}], "answer": lambda *_: {"answer": "x"}}
    prediction, _ = ask(LeastToMost(max_questions=3), script)
    assert prediction.trace.of(Decomposed)[0].questions == [WHO, "Question 0?", "Question 1?"]


@pytest.mark.parametrize("reply", ["mumble", {"questions": []}])
def test_without_simpler_questions_the_question_is_answered(ask, reply):
    prediction, _ = ask(LeastToMost(), {"questions": lambda *_: reply, "answer": lambda *_: {"answer": "Tarn"}})
    assert prediction.answer == "Tarn"
    assert len(prediction.trace.of(Answered)) == 1
    assert bool(prediction.trace.of(Malformed)) == (reply == "mumble")


def test_an_unreadable_step_is_unknown_to_the_next(ask):
    script = {"questions": [{"questions": [WHO]}], "answer": lambda *_: "mumble"}
    prediction, engine = ask(LeastToMost(), script)
    assert engine.calls[-1][1]["sub_answers"] == [{"question": WHO, "answer": "unknown"}]
    assert prediction.answer == ""
