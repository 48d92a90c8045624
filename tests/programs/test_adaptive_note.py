"""Adaptive-Note: the case of table A5, the ablations of tables 2 to 4, and what can go wrong.

The case has the shape of the paper's: two steps of two questions each, the first note without the population, the
second with it and kept, the third without growth. Question, names and figures are the paper's; sentences are in our
words.
"""

import pytest
from support import TableRetriever, play

from knowgap.programs.adaptive_note import AdaptiveNote
from knowgap.programs.trace.steps import Compared, Reasoned
from knowgap.retrieval.passage import Passage
from knowgap.signatures import NOTE_STYLES, STYLES

QUESTION = "What was the 2010 population of the town where Lake George Avenue Historic District is located?"
DISTRICT = Passage("district", "Lake George Avenue Historic District", "Bungalows in Ticonderoga, Essex County.")
AMHERST = Passage("amherst", "Amherst Avenue Historic District", "Six houses by W.A. Gale in Ticonderoga.")
LAKE = Passage("lake", "Lake George", "A lake in the Adirondack Mountains.")
TOWN = Passage("town", "Ticonderoga, New York", "A town of 5,042 inhabitants at the 2010 census.")
COUNTY = Passage("county", "Essex County, New York", "A county of New York with 39,370 inhabitants in 2010.")
GALE = Passage("gale", "W.A. Gale", "A builder who worked for the Ticonderoga Pulp and Paper Company.")
BUNGALOW = Passage("bungalow", "American Craftsman", "A style of houses popular for bungalows.")

ASKED = [
    ["How many people lived in Ticonderoga, New York, in 2010?", "What does the 2010 census say of Ticonderoga?"],
    ["What is the American Craftsman style?", "Who was the builder W.A. Gale?"],
]
TABLE = {
    QUESTION: [DISTRICT, AMHERST, LAKE],
    ASKED[0][0]: [TOWN, COUNTY],
    ASKED[0][1]: [COUNTY, TOWN, DISTRICT],
    ASKED[1][0]: [BUNGALOW],
    ASKED[1][1]: [GALE, AMHERST],
}
NOTES = [
    "The district lies in Ticonderoga, Essex County; the passages do not give the town's population.",
    "The district lies in Ticonderoga, Essex County; the town had 5,042 inhabitants in 2010.",
    "The district lies in Ticonderoga, Essex County; the town had 5,042 inhabitants in 2010. Gale built houses there.",
]
TOWN_ALWAYS = {QUESTION: [DISTRICT], **{f"new {n} a?": [TOWN] for n in range(1, 10)}}


def example(changes=None, **kwargs):
    """The worked example of table A5, with some replies changed."""
    script = {"init": NOTES[0], "propose": ASKED, "update": NOTES[1:], "compare": [True, False], "generate": "5,042"}
    return play(AdaptiveNote(TableRetriever(TABLE), **kwargs), QUESTION, **{**script, **(changes or {})})


def endless(retriever=TOWN_ALWAYS, **kwargs):
    """A model that always has new questions and a new note."""
    script = {
        "init": "first",
        "propose": [[f"new {n} a?", f"new {n} b?"] for n in range(1, 40)],
        "update": [f"note {n}" for n in range(1, 40)],
        "compare": True,
        "generate": "it",
    }
    return play(AdaptiveNote(TableRetriever(retriever), **kwargs), QUESTION, **script)


@pytest.mark.parametrize("max_calls", [None, 8])
def test_worked_example_of_table_a5(max_calls):
    prediction, engine = example(max_calls=max_calls)
    trace = prediction.trace
    assert [(step.iteration, step.kind) for step in trace.steps] == [
        *[(0, kind) for kind in ("asked", "retrieved", "reasoned")],
        *[(1, kind) for kind in ("queried", "retrieved", "reasoned", "compared")],
        *[(2, kind) for kind in ("queried", "retrieved", "reasoned", "compared", "stopped", "answered")],
    ]
    assert [step.text for step in trace.of(Reasoned)] == NOTES
    assert [step.passages for step in trace.of(Compared)] == [
        ["county", "town", "district"],  # county and town are second and first, first and second: a tie, by id
        ["bungalow", "gale", "amherst"],
    ]
    assert trace.stopped == "invalid updates"
    assert (prediction.answer, prediction.note) == ("5,042", NOTES[1])
    assert prediction.questions == [question for pair in ASKED for question in pair]
    assert [passage.id for passage in prediction.passages] == ["district", "amherst", "lake", "county", "town"]
    cost = trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.iterations, cost.passages) == (8, 8, 5, 2, 7)
    asked = [(inputs["asked"], inputs["note"]) for inputs in engine.asked("propose")]
    assert asked == [([], NOTES[0]), (ASKED[0], NOTES[1])]
    compared = [(inputs["best_note"], inputs["new_note"]) for inputs in engine.asked("compare")]
    assert compared == [(NOTES[0], NOTES[1]), (NOTES[1], NOTES[2])]
    assert engine.asked("generate") == [{"question": QUESTION, "note": NOTES[1], "style": STYLES["short"]}]


def test_without_review_every_new_note_is_accepted_until_the_caps():
    prediction, engine = endless(review=False)
    assert engine.asked("compare") == []
    assert (prediction.note, prediction.trace.stopped) == ("note 3", "iterations")
    assert prediction.trace.cost.lm_calls == 1 + 3 * 2 + 1


def test_without_collection_it_is_plain_retrieval_augmented_generation():
    prediction, engine = example({"generate": "366"}, collect=False)
    assert engine.asked("generate")[0]["note"] == "\n".join(map(str, TABLE[QUESTION]))
    assert (prediction.answer, prediction.note, prediction.trace.cost.lm_calls) == ("366", "", 1)
    assert prediction.passages == TABLE[QUESTION]


@pytest.mark.parametrize(("cap", "read"), [(1, 1), (2, 2), (3, 4)])
def test_it_stops_at_so_many_distinct_passages(cap, read):
    trace = endless(retriever={**TOWN_ALWAYS, "new 3 b?": [LAKE]}, max_passages=cap, iterations=10)[0].trace
    assert (trace.stopped, len(trace.of(Reasoned))) == ("passages", read)


@pytest.mark.parametrize("style", ["short", "long", "news"])
def test_the_answer_is_worded_as_table_a4_asks_for(style):
    """It has a prompt for multi-hop questions, one for ASQA and one for CRUD."""
    _, engine = example(style=style)
    assert engine.asked("generate")[0]["style"] == NOTE_STYLES.get(style, STYLES[style])
