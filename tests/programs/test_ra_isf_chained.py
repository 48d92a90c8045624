"""RA-ISF: sub-questions that refer to earlier answers, and sub-questions that come up again."""

import pytest
from support import TableRetriever, play

from knowgap.programs.ra_isf import RAISF
from knowgap.programs.trace.steps import Asked, Rejected, Stopped

PAPER = {**RAISF.preset("multi_hop"), "chained": True}
ROOT = "Where was the director of the film born?"


def run(parts, answers=None, *, known=None, **kwargs):
    """Ask with a model that knows what `known` says (by default all but the questions of `parts`), without passages."""
    answers = answers or {}

    def know(inputs):
        return inputs["question"] not in parts if known is None else inputs["question"] in known

    def answer(inputs):
        return {ROOT: "in Aarhus", **answers}.get(inputs["question"], f"about {inputs['question']}")

    def split(inputs):
        return parts.get(inputs["question"], [])

    script = {"know": know, "chain": split, **dict.fromkeys(("answer", "synthesise"), answer)}
    return play(RAISF(TableRetriever({}), **{**PAPER, **kwargs}), ROOT, **script)


def asked(prediction):
    return [step.question for step in prediction.trace.of(Asked)][1:]


def known_of(engine):
    """The questions that the model was asked whether it knows, in order of the alphabet."""
    return sorted(inputs["question"] for inputs in engine.asked("know"))


def test_the_answer_to_an_earlier_sub_question_is_filled_in_before_the_next_is_solved():
    parts = {ROOT: ["Who directed the film?", "Where was #1 born?", "Which country is #2 in?"]}
    answers = {"Who directed the film?": "Ilse Morn", "Where was Ilse Morn born?": "Aarhus"}
    prediction, engine = run(parts, answers)
    filled = ["Who directed the film?", "Where was Ilse Morn born?", "Which country is Aarhus in?"]
    assert asked(prediction) == filled
    assert [part["question"] for part in engine.asked("synthesise")[0]["sub_answers"]] == filled
    # know, retrieve, decompose; three times know and answer, one after the other; put together
    assert prediction.trace.cost.critical_calls == 2 + 3 * 2 + 1


@pytest.mark.parametrize("preset", RAISF.presets)
def test_the_papers_presets_ask_every_sub_question_as_it_was_written(preset):
    """Algorithm 1 solves q_i, and depth 3 is the paper's threshold (section 4.5)."""
    prediction, _ = run({ROOT: ["Who?", "Where was #1 born?"]}, {ROOT: "no"}, **RAISF.preset(preset))
    assert asked(prediction) == ["Who?", "Where was #1 born?"]
    deep = {ROOT: ["q1"], **{f"q{n}": [f"q{n + 1}"] for n in range(1, 9)}}
    assert asked(run(deep, {ROOT: "no"}, known=(), **RAISF.preset(preset))[0]) == ["q1", "q2", "q3"]


@pytest.mark.parametrize(
    ("lines", "questions"),
    [
        (["Who?", "Where was #7 born?"], ["Who?", "Where was #7 born?"]),  # there is no seventh
        (["Where was #2 born?", "Who?"], ["Where was #2 born?", "Who?"]),  # a later one
        (["Where was #1 born?", "Who #1?"], ["Where was #1 born?", "Who about Where was #1 born??"]),  # itself
        (["", "Who?", "Where was #2 born?"], ["Who?", "Where was about Who? born?"]),  # numbered as the model numbers
        (["Who?", "who", "Where was #2 born?"], ["Who?", "Where was about Who? born?"]),  # a repeated one
        ([ROOT, "Where was #1 born?"], ["Where was #1 born?"]),  # the question itself, which is left out
        (["Who?", "#1 and #1 or #12?"], ["Who?", "about Who? and about Who? or #12?"]),
        (["Who?", f"Where was #{10**30} or #0 born?"], ["Who?", f"Where was #{10**30} or #0 born?"]),
    ],
)
def test_a_reference_that_stands_for_nothing_is_left_as_it_is(lines, questions):
    prediction, _ = run({ROOT: lines})
    assert sorted(asked(prediction)) == sorted(questions)
    assert prediction.answer == "in Aarhus"


def test_a_number_sign_that_the_question_has_is_no_reference():
    question = "Who wrote the #1 hit of 1977?"
    script = {"know": lambda i: i["question"] != question, "answer": "x", "synthesise": "y"}
    script["chain"] = lambda inputs: ["What charted?", "Who wrote the #1 hit?"]
    prediction, _ = play(RAISF(TableRetriever({}), **PAPER), question, **script)
    assert asked(prediction) == ["What charted?", "Who wrote the #1 hit?"]


def test_what_refers_to_an_unknown_answer_is_not_asked():
    parts = {ROOT: ["Who?", "Where was #1 born?", "Which town has #2?", "When?"]}
    prediction, engine = run(parts, known=("When?",), depth=1)
    assert known_of(engine) == ["When?", ROOT, "Who?"]
    assert [part.answer for part in prediction.sub_answers] == ["", "", "", "about When?"]
    assert {step.why for step in prediction.trace.of(Rejected)} == {"refers to an answer that is unknown"}
    assert [step.what for step in prediction.trace.of(Rejected)] == ["Where was #1 born?", "Which town has #2?"]


@pytest.mark.parametrize("concurrent", [True, False])
def test_a_sub_question_that_comes_up_again_is_not_solved_again(concurrent):
    parts = {
        ROOT: ["A?", "B?", "Who is #1 or #2?"],
        "A?": ["C?", "D of #1?"],
        "B?": ["c", "E?", "D of #1?"],
        "C?": ["F?"],
        "E?": ["F?"],
    }
    prediction, engine = run(parts, {"A?": "a", "B?": "b", "C?": "c"}, concurrent=concurrent)
    assert known_of(engine) == sorted({ROOT, *parts, "F?", "D of c?", "Who is a or b?"})
    reasons = [step.reason for step in prediction.trace.of(Stopped)]
    assert reasons.count("asked before") == 3  # c, the second F, the second D
    assert [(p.question, p.answer) for p in prediction.sub_answers] == [
        ("A?", "a"),
        ("B?", "b"),
        ("Who is a or b?", "about Who is a or b?"),
    ]


@pytest.mark.parametrize("concurrent", [True, False])
@pytest.mark.parametrize(
    "parts",
    [
        {ROOT: ["A?", "B?"], "A?": ["B?"], "B?": ["A?"]},
        {ROOT: ["A?", "B?", "C?"], "A?": ["B?"], "B?": ["C?", "X?"], "C?": ["A?", "Y?"]},
        {ROOT: ["A?", "Is it #1?"], "A?": ["B?", "Is it #1?"], "B?": ["A?", "C?"], "C?": ["B?"]},
    ],
)
def test_questions_that_wait_for_each_other_come_to_an_end(parts, concurrent):
    prediction, engine = run(parts, depth=5, concurrent=concurrent)
    other, _ = run(parts, depth=5, concurrent=not concurrent)
    assert len(set(known_of(engine))) == len(known_of(engine))
    assert prediction.answer == "in Aarhus"
    assert prediction.sub_answers == other.sub_answers
    assert [(s.kind, s.branch) for s in prediction.trace.steps] == [(s.kind, s.branch) for s in other.trace.steps]
