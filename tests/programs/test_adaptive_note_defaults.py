"""Adaptive-Note by default: it ends if the note lacks nothing, reads nothing twice, and compares only what it must."""

import pytest
from support import UNREADABLE, TableRetriever, play

from knowgap.programs.adaptive_note import AdaptiveNote
from knowgap.programs.trace.steps import Compared, Malformed, Noted, Withheld
from knowgap.retrieval.passage import Passage

QUESTION = "Where was the painter of The Grey Ferry born?"
NEW = "Where was Ada Moor born?"
FERRY = Passage("ferry", "The Grey Ferry", "Ada Moor painted it.")
TOWN = Passage("town", "Tarn", "A town.")
MOOR = Passage("moor", "Ada Moor", "She was born in Wick.")
NOTE = "Ada Moor painted The Grey Ferry. Her birthplace is not given."
LONGER = f"Ada Moor was a painter. {NOTE} It is small."
OTHER = "Ada Moor, who painted The Grey Ferry, was born in Wick."


def run(table=None, *, questions=((NEW,), ()), update=OTHER, compare=True, **settings):
    """Ask; `questions` are what the first note and each update ask, or what the call of their own asks."""
    program = AdaptiveNote(TableRetriever(table or {QUESTION: [FERRY], NEW: [FERRY, MOOR]}), **settings)
    asked = [each if each == UNREADABLE else {"questions": list(each)} for each in questions]
    notes = [NOTE, *[update] * (len(asked) - 1)]
    first, *later = [{"note": note, "questions": list(each)} for note, each in zip(notes, questions, strict=True)]
    script = {"init_and_ask": first, "update_and_ask": later, "init": NOTE, "update": update, "complete": asked}
    script |= {"propose": asked, "compare": {"reason": "", "better": compare}, "generate": "Wick"}
    return play(program, QUESTION, **script)


def test_a_note_that_lacks_nothing_takes_two_calls():
    prediction, engine = run(questions=[()])
    assert engine.acts == ["init_and_ask", "generate"]
    assert (prediction.answer, prediction.note, prediction.trace.stopped) == ("Wick", NOTE, "no new question")
    assert prediction.questions == []


@pytest.mark.parametrize(
    ("settings", "acts"),
    [
        ({}, ["init_and_ask", "update_and_ask", "compare", "generate"]),
        ({"ask_together": False}, ["init", "complete", "update", "compare", "complete", "generate"]),
    ],
)
def test_a_second_step_takes_as_many_calls(settings, acts):
    prediction, engine = run(**settings)
    assert (engine.acts, prediction.answer, prediction.questions) == (acts, "Wick", [NEW])
    assert [given["asked"] for given in engine.asked("update_and_ask")] == [[NEW]] * (not settings)


def test_passages_that_did_not_better_the_note_are_read_again_and_for_the_answer():
    table = {QUESTION: [FERRY], NEW: [MOOR], "And then?": [TOWN]}
    settings = {"questions": ((NEW,), ("And then?",), ()), "compare": False, "invalid_updates": 2}
    for second, seen in ((True, ["Tarn", "Ada Moor"]), (False, ["Tarn"])):
        prediction, engine = run(table, second_reading=second, **settings)
        later = engine.asked("update_and_ask")[1]["passages"]
        assert [passage["title"] for passage in later] == seen
        assert ("born in Wick" in engine.asked("generate")[0]["note"]) is second
        assert (MOOR in prediction.passages) is second


@pytest.mark.parametrize(("may_finish", "act"), [(True, "complete"), (False, "propose")])
def test_only_the_papers_loop_asks_for_two_questions_in_any_case(may_finish, act):
    prediction, _ = run(questions=[UNREADABLE] * 2, may_finish=may_finish, ask_together=False)
    assert [step.act for step in prediction.trace.of(Malformed)] == [act]


@pytest.mark.parametrize(("reread", "read"), [(False, ["moor"]), (True, ["ferry", "moor"])])
def test_an_update_is_shown_what_no_earlier_step_has_read(reread, read):
    prediction, engine = run(reread=reread)
    assert [step.passages for step in prediction.trace.of(Noted)] == [["ferry"], read]
    assert len(engine.asked("update_and_ask")[0]["passages"]) == len(read)
    assert [step.passages for step in prediction.trace.of(Withheld)] == ([] if reread else [["ferry"]])
    assert [passage.id for passage in prediction.passages] == ["ferry", "moor"]


def test_a_step_that_finds_only_what_was_read_updates_nothing():
    prediction, engine = run({QUESTION: [FERRY], NEW: [FERRY]})
    assert engine.acts == ["init_and_ask", "generate"]
    assert [(step.better, step.reason) for step in prediction.trace.of(Compared)] == [(False, "no passages")]
    assert (prediction.note, prediction.trace.stopped) == (NOTE, "invalid updates")


@pytest.mark.parametrize(
    ("update", "settings", "compared"),
    [
        (LONGER, {}, False),  # every sentence of the best note stands in it
        (LONGER.replace(" ", "\n"), {}, False),
        (OTHER, {}, True),
        (LONGER, {"compare_additions": True}, True),
    ],
)
@pytest.mark.parametrize("better", [True, False])
def test_a_note_that_only_adds_is_better_without_a_comparison(update, settings, compared, better):
    prediction, engine = run(update=update, compare=better, **settings)
    assert bool(engine.asked("compare")) is compared
    accepted = better or not compared
    assert prediction.trace.of(Compared)[0].better is accepted
    assert (prediction.trace.of(Compared)[0].reason == "it adds to the note") is not compared
    assert prediction.note.split() == (update if accepted else NOTE).split()


@pytest.mark.parametrize(("style", "own"), [("short", None), ("long", False), ("news", True)])
def test_the_style_says_what_the_answer_may_rest_on(style, own):
    _, engine = run(questions=[()], style=style)
    [given] = engine.asked("generate")
    assert ("own knowledge" in given["style"]) is (own is True)
    assert ("only what the note says" in given["style"]) is (own is False)
