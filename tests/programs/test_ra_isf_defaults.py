"""RA-ISF by default: one reply judges and reads, and what was found is handed down and up."""

import pytest
from support import ScriptedEngine, TableRetriever, lm_of, play

from knowgap.programs.ra_isf import RAISF
from knowgap.programs.trace.steps import Answered, Judged
from knowgap.retrieval.passage import Passage
from knowgap.signatures import INTERMEDIATE, STYLES

QUESTION = "Where was the painter of The Grey Ferry born?"
WHO, WHERE = "Who painted The Grey Ferry?", "Where was Ada Moor born?"
FERRY = Passage("ferry", "The Grey Ferry", "Ada Moor painted it.")
MOOR = Passage("moor", "Ada Moor", "She was born in Wick.")
NOISE = Passage("noise", "Ferries", "Ferries carry people.")
TABLE = {QUESTION: [NOISE, FERRY], WHO: [NOISE], WHERE: [FERRY, MOOR]}


def says(answer, *relevant, answerable=True):
    return {"relevant_ids": list(relevant), "answer": answer, "answerable": answerable}


def run(read, parts=(), **settings):
    """Ask with a model that reads questions as `read` says and breaks the question into `parts`."""
    script = {
        "judge_and_read": lambda given: read[given["question"]],
        **dict.fromkeys(("decompose_open", "chain"), lambda _: {"questions": list(parts)}),
        **dict.fromkeys(("synthesise", "synthesise_all"), "Wick, Caithness"),
        "answer": "from memory",
        "know": False,
    }
    return play(RAISF(TableRetriever(TABLE), **settings), QUESTION, **script)


def titles(given):
    return [passage["title"] for passage in given["passages"]]


def test_passages_that_settle_the_question_take_one_call():
    prediction, engine = run({QUESTION: says("Wick", 2, 9)})
    assert engine.acts == ["judge_and_read"]
    assert titles(engine.asked("judge_and_read")[0]) == ["Ferries", "The Grey Ferry"]
    assert (prediction.answer, prediction.passages) == ("Wick", [FERRY])
    assert prediction.trace.stopped == "relevant passages"
    judged = [(step.what, step.value) for step in prediction.trace.of(Judged)]
    assert judged == [("relevance", False), ("relevance", True), ("answerable", True)]


def test_an_answer_that_no_passage_is_named_for_rests_on_all_that_were_shown():
    prediction, _ = run({QUESTION: says("Wick")})
    assert (prediction.answer, prediction.passages) == ("Wick", [NOISE, FERRY])


def test_an_answer_that_is_a_sentence_is_shortened():
    read = {QUESTION: says("She was born in the town of Wick.", 2)}
    program = RAISF(TableRetriever(TABLE))
    prediction, engine = play(program, QUESTION, judge_and_read=lambda given: read[given["question"]], shorten="Wick")
    assert (prediction.answer, engine.acts) == ("Wick", ["judge_and_read", "shorten"])
    assert prediction.trace.steps[-1].answer == "Wick"


def test_passages_and_guesses_are_handed_down_and_up():
    read = {QUESTION: says("Tarn", 2, answerable=False), WHERE: says("Wick", 2)}
    prediction, engine = run(read, [WHERE])
    assert engine.acts == ["judge_and_read", "decompose_open", "judge_and_read", "synthesise_all"]
    decompose, (below,) = engine.asked("decompose_open")[0], engine.asked("judge_and_read")[1:]
    assert (titles(decompose), decompose["guess"]) == (["The Grey Ferry"], "Tarn")
    assert titles(below) == ["The Grey Ferry", "Ada Moor"]  # the one handed down first, and once
    (above,) = engine.asked("synthesise_all")
    assert titles(above) == ["The Grey Ferry", "Ada Moor"]
    assert above["sub_answers"] == [{"question": WHERE, "answer": "Wick"}]
    assert (below["style"], above["style"]) == (INTERMEDIATE, STYLES["short"])
    assert (prediction.answer, prediction.passages) == ("Wick, Caithness", [FERRY, MOOR])


@pytest.mark.parametrize(("relevant", "answer"), [((2,), "Tarn"), ((), "from memory")])
def test_a_guess_from_passages_goes_before_memory_where_nothing_more_can_be_asked(relevant, answer):
    prediction, engine = run({QUESTION: says("Tarn", *relevant, answerable=False)})
    assert prediction.answer == prediction.trace.of(Answered)[-1].answer == answer
    assert engine.acts[:2] == ["judge_and_read", "decompose_open"]
    assert prediction.passages == ([FERRY] if relevant else [])


def test_at_the_depth_a_sub_question_gives_its_guess():
    read = {QUESTION: says("", answerable=False), WHO: says("Ada Moor", 1, answerable=False)}
    prediction, engine = run(read, [WHO], depth=1)
    assert [part.answer for part in prediction.sub_answers] == ["Ada Moor"]
    assert titles(engine.asked("synthesise_all")[0]) == ["Ferries"]


def test_without_pass_on_every_sub_question_stands_alone():
    read = {QUESTION: says("Tarn", 2, answerable=False), WHO: says("Ada Moor", 1)}
    prediction, engine = run(read, [WHO], pass_on=False)
    assert engine.acts == ["judge_and_read", "chain", "judge_and_read", "synthesise"]
    assert titles(engine.asked("judge_and_read")[1]) == ["Ferries"]
    assert prediction.passages == [NOISE]


def test_the_model_is_asked_what_it_knows_only_if_a_model_is_given_for_that():
    know = lm_of(ScriptedEngine(lambda *_: {"knows": True}))
    assert [RAISF().self_knowledge, RAISF(know=know).self_knowledge] == [False, True]
    assert RAISF(know=know, self_knowledge=False).self_knowledge is False
    prediction, engine = run({}, know=know)
    assert (engine.acts, prediction.answer) == (["answer"], "from memory")


def test_a_guess_to_which_the_parts_add_nothing_is_the_answer():
    read = {QUESTION: says("Tarn", 2, answerable=False), WHO: says("", answerable=False)}
    prediction, engine = run(read, [WHO], depth=1)
    assert (engine.acts, prediction.answer) == (["judge_and_read", "decompose_open", "judge_and_read"], "Tarn")


def test_a_sub_question_without_a_relevant_passage_is_not_answered_from_memory():
    read = {QUESTION: says("", answerable=False), WHO: says("", answerable=False)}
    _, engine = run(read, [WHO])
    assert engine.acts == [*["judge_and_read", "decompose_open"] * 2, "synthesise_all"]


def test_a_guess_that_the_last_part_confirms_is_the_answer():
    read = {QUESTION: says("Wick", 2, answerable=False), WHO: says("Ada Moor", 1), WHERE: says("wick.", 2)}
    prediction, engine = run(read, [WHO, WHERE])
    assert (engine.acts[-1], prediction.answer) == ("judge_and_read", "Wick")
    assert [part.answer for part in prediction.sub_answers] == ["Ada Moor", "wick."]
