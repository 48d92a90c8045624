"""Adaptive-Note: table A5 as a recorded trace, the ablations of tables 2 to 4, and what can go wrong."""

import itertools

import dspy
import pytest
from support import TableRetriever, scripted_lm

from knowgap.programs.adaptive_note import AdaptiveNote
from knowgap.programs.trace.steps import Answered, Compared, Malformed, Noted, Queried, Retrieved
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES

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
FOUND = {
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
BROKEN = "no field in sight"


def act_of(outputs, inputs):
    if outputs == ("note",):
        return "update" if "best_note" in inputs else "init"
    return {"questions": "propose", "reason": "compare", "answer": "answer"}[outputs[0]]


def model(**acts):
    """A model by act: a list of values in order, or one reply for all."""
    field = {"init": "note", "update": "note", "propose": "questions", "answer": "answer"}
    replies = {act: iter(value) if isinstance(value, list) else itertools.repeat(value) for act, value in acts.items()}

    def rule(outputs, inputs):
        act = act_of(outputs, inputs)
        value = next(replies[act])
        if value == BROKEN:
            return BROKEN
        return {"reason": "because", "better": value} if act == "compare" else {field[act]: value}

    return scripted_lm(rule)


def example(**changes):
    acts = {"init": NOTES[0], "propose": ASKED, "update": NOTES[1:], "compare": [True, False], "answer": "5,042"}
    return model(**(acts | changes))


def run(lm, found=FOUND, **kwargs):
    program = AdaptiveNote(TableRetriever(found), **kwargs)
    with dspy.context(lm=lm):
        return program(question=QUESTION)


def inputs_of(engine, act):
    return [inputs for outputs, inputs in engine.calls if act_of(outputs, inputs) == act]


def endless(notes_better=True, **changes):
    """A model that always has new questions and a new note."""
    numbers = itertools.count(1)
    questions = [[f"new {n} a?", f"new {n} b?"] for n in range(1, 40)]
    notes = (f"note {next(numbers)}" for _ in range(40))
    acts = {"init": "first", "propose": questions, "update": list(notes), "compare": notes_better, "answer": "it"}
    return model(**(acts | changes))


class EverNew:
    """Finds k passages that nobody has seen yet, whatever is asked."""

    def __init__(self):
        self.number = itertools.count(1)

    def search(self, queries, k):
        table = {query: [Passage(f"p{next(self.number):04d}", "", "text") for _ in range(k)] for query in queries}
        return TableRetriever(table).search(queries, k)


def one_each():
    """One passage for the question and one for each first question."""
    return {QUESTION: [DISTRICT]} | {f"new {n} a?": [Passage(f"p{n}", "", "text")] for n in range(1, 40)}


def test_worked_example_of_table_a5():
    lm, engine = example()
    prediction = run(lm)
    trace = prediction.trace
    assert [(step.iteration, step.kind) for step in trace.steps] == [
        (0, "asked"),
        (0, "retrieved"),
        (0, "noted"),
        (1, "queried"),
        (1, "retrieved"),
        (1, "noted"),
        (1, "compared"),
        (2, "queried"),
        (2, "retrieved"),
        (2, "noted"),
        (2, "compared"),
        (2, "stopped"),
        (2, "answered"),
    ]
    assert [step.queries for step in trace.of(Queried)] == ASKED
    assert [step.queries for step in trace.of(Retrieved)] == [[QUESTION], *ASKED]
    assert [step.note for step in trace.of(Noted)] == NOTES
    assert [step.passages for step in trace.of(Noted)] == [
        ["district", "amherst", "lake"],
        ["county", "town", "district"],  # county and town are second and first, first and second: a tie, by id
        ["bungalow", "gale", "amherst"],
    ]
    assert [step.better for step in trace.of(Compared)] == [True, False]
    assert trace.stopped == "invalid updates"
    assert prediction.answer == "5,042"
    assert prediction.note == NOTES[1]
    assert prediction.questions == [question for pair in ASKED for question in pair]
    assert [passage.id for passage in prediction.passages] == ["district", "amherst", "lake", "county", "town"]
    cost = trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.iterations, cost.passages) == (8, 8, 5, 2, 7)
    assert [inputs["asked"] for inputs in inputs_of(engine, "propose")] == [[], ASKED[0]]
    assert [inputs["note"] for inputs in inputs_of(engine, "propose")] == NOTES[:2]
    assert [inputs["best_note"] for inputs in inputs_of(engine, "update")] == NOTES[:2]
    assert [(i["best_note"], i["new_note"]) for i in inputs_of(engine, "compare")] == [
        (NOTES[0], NOTES[1]),
        (NOTES[1], NOTES[2]),
    ]
    assert inputs_of(engine, "answer") == [{"question": QUESTION, "note": NOTES[1], "style": STYLES["short"]}]


def test_updates_start_from_the_best_note_never_from_a_rejected_one():
    lm, engine = endless(notes_better=[False, True, False])
    prediction = run(lm, FOUND | {"new 1 a?": [TOWN], "new 2 b?": [GALE], "new 3 a?": [COUNTY]}, invalid_updates=3)
    assert [inputs["best_note"] for inputs in inputs_of(engine, "update")] == ["first", "first", "note 2"]
    assert prediction.note == "note 2"
    assert prediction.trace.stopped == "iterations"
    assert [passage.id for passage in prediction.passages] == ["district", "amherst", "lake", "gale"]


def test_invalid_updates_count_in_total():
    lm, _ = endless(notes_better=[False, True, False, True])
    found = {QUESTION: [DISTRICT]} | {f"new {n} a?": [TOWN] for n in range(1, 10)}
    prediction = run(lm, found, invalid_updates=2, iterations=9)
    assert [step.better for step in prediction.trace.of(Compared)] == [False, True, False]
    assert prediction.trace.stopped == "invalid updates"


def test_without_review_every_new_note_is_accepted_until_the_caps():
    lm, engine = endless()
    prediction = run(lm, {QUESTION: [DISTRICT]} | {f"new {n} a?": [TOWN] for n in range(1, 10)}, review=False)
    assert prediction.trace.of(Compared) == []
    assert inputs_of(engine, "compare") == []
    assert prediction.note == "note 3"
    assert prediction.trace.stopped == "iterations"
    assert prediction.trace.cost.lm_calls == 1 + 3 * 2 + 1


def test_without_review_an_unreadable_note_leaves_the_last():
    lm, _ = endless(update=["second", BROKEN, BROKEN, "fourth"])
    prediction = run(lm, {QUESTION: [DISTRICT]} | {f"new {n} a?": [TOWN] for n in range(1, 10)}, review=False)
    assert [step.note for step in prediction.trace.of(Noted)] == ["first", "second", "fourth"]
    assert prediction.note == "fourth"


def test_without_collection_it_is_plain_retrieval_augmented_generation():
    lm, engine = model(answer="366")
    prediction = run(lm, collect=False)
    assert [step.kind for step in prediction.trace.steps] == ["asked", "retrieved", "answered"]
    assert [passage["title"] for passage in engine.calls[0][1]["passages"]] == [p.title for p in FOUND[QUESTION]]
    assert (prediction.answer, prediction.note, prediction.trace.cost.lm_calls) == ("366", "", 1)
    assert prediction.passages == FOUND[QUESTION]


def test_no_iteration_answers_from_the_first_note():
    lm, _ = example()
    prediction = run(lm, iterations=0)
    assert (prediction.note, prediction.trace.stopped) == (NOTES[0], "iterations")
    assert prediction.trace.cost.lm_calls == 2


@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_iterations_are_capped(iterations):
    lm, _ = endless()
    trace = run(lm, one_each(), iterations=iterations, max_passages=200).trace
    assert trace.stopped == "iterations"
    assert trace.cost.iterations == iterations == len(trace.of(Queried))


@pytest.mark.parametrize(
    ("top_k", "cap", "read"), [(5, 15, [5, 5, 5]), (7, 15, [7, 7, 1]), (5, 12, [5, 5, 2]), (20, 15, [15])]
)
def test_distinct_passages_are_capped(top_k, cap, read):
    lm, _ = endless()
    program = AdaptiveNote(EverNew(), top_k=top_k, max_passages=cap, iterations=10)
    with dspy.context(lm=lm):
        trace = program(question=QUESTION).trace
    assert trace.stopped == "passages"
    assert trace.cost.passages == cap
    assert [len(step.passages) for step in trace.of(Noted)] == read
    assert all(step.k == top_k for step in trace.of(Retrieved))


def test_passages_read_before_may_be_read_again_at_the_cap():
    lm, _ = endless()
    found = {QUESTION: [DISTRICT, LAKE], "new 1 a?": [TOWN, DISTRICT]}
    trace = run(lm, found, max_passages=2 + 1).trace
    assert [step.passages for step in trace.of(Noted)] == [["district", "lake"], ["town", "district"]]
    assert trace.stopped == "passages"


def test_the_two_searches_are_fused_by_reciprocal_rank():
    # 1/61 + 1/62 > 1/63 + 1/63 > 1/61 > 1/62: found by both outweighs found first by one
    found = {QUESTION: [], "new 1 a?": [TOWN, GALE, COUNTY], "new 1 b?": [LAKE, TOWN, COUNTY]}
    lm, _ = endless()
    assert run(lm, found, iterations=1).trace.of(Noted)[0].passages == ["town", "county", "lake", "gale"]
    lm, _ = endless()
    assert run(lm, found, iterations=1, top_k=3).trace.of(Noted)[0].passages == ["town", "county", "lake"]


def test_questions_asked_before_are_left_out():
    repeated = [ASKED[0], [ASKED[0][0].upper(), QUESTION, ASKED[1][1], "A third?", "A fourth?"], ASKED[0]]
    lm, _ = example(propose=repeated, compare=True, update=["one", "two", "three"])
    trace = run(lm).trace
    assert [step.queries for step in trace.of(Queried)] == [ASKED[0], [ASKED[1][1], "A third?"], []]
    assert [step.repeated for step in trace.of(Queried)] == [[], [ASKED[0][0].upper(), QUESTION], ASKED[0]]
    assert trace.stopped == "no new question"


@pytest.mark.parametrize(("threshold", "better"), [(0.6, True), (0.7, True), (0.8, False)])
def test_compare_threshold_decides(threshold, better):
    lm, _ = example(compare={"noul": 0.7})
    prediction = run(lm, compare_threshold=threshold, iterations=1)
    assert prediction.trace.of(Compared)[0].better is better
    assert prediction.note == NOTES[better]


def test_unchanged_note_is_no_better_and_the_model_is_not_asked():
    lm, engine = example(update=NOTES[0].replace(" ", "\n"))
    trace = run(lm).trace
    assert trace.of(Compared) == [
        Compared(iteration=1, better=False, reason="the note is unchanged", at=trace.steps[-3].at)
    ]
    assert inputs_of(engine, "compare") == []


@pytest.mark.parametrize(
    ("changes", "act", "note", "stopped"),
    [
        ({"init": BROKEN, "compare": [False]}, "init", NOTES[1], "invalid updates"),
        ({"propose": BROKEN}, "propose", NOTES[0], "no new question"),
        ({"update": BROKEN}, "update", NOTES[0], "invalid updates"),
        ({"compare": BROKEN}, "compare", NOTES[0], "invalid updates"),
    ],
)
def test_malformed_output_counts_as_nothing_found(changes, act, note, stopped):
    lm, engine = example(**changes)
    prediction = run(lm)
    assert [step.act for step in prediction.trace.of(Malformed)] == [act]
    assert (prediction.answer, prediction.note, prediction.trace.stopped) == ("5,042", note, stopped)
    assert inputs_of(engine, "answer")[-1]["note"] == note
    assert ("lake" in [passage.id for passage in prediction.passages]) is (act != "init")
    assert prediction.trace.cost.lm_calls == len(engine.calls)


@pytest.mark.parametrize("answer", [BROKEN, "", "  "])
def test_without_a_readable_answer_it_is_unknown(answer):
    lm, _ = example(answer=answer)
    trace = (prediction := run(lm)).trace
    assert prediction.answer == "unknown"
    assert len(trace.of(Malformed)) == (answer == BROKEN)


def test_no_hit_at_all():
    lm, engine = example()
    prediction = run(lm, {})
    assert [step.kind for step in prediction.trace.steps] == [
        "asked",
        "retrieved",
        "queried",
        "retrieved",
        "compared",
        "stopped",
        "answered",
    ]
    assert prediction.trace.of(Compared)[0].reason == "no passages"
    assert (prediction.answer, prediction.passages, prediction.note) == ("5,042", [], "")
    assert len(engine.calls) == 2  # propose and answer: nothing to read


def test_first_note_in_a_later_step_is_accepted():
    lm, engine = example(compare=[False])
    prediction = run(lm, FOUND | {QUESTION: []})
    assert [step.better for step in prediction.trace.of(Compared)] == [True, False]
    assert (prediction.note, len(inputs_of(engine, "init"))) == (NOTES[1], 0)
    assert [passage.id for passage in prediction.passages] == ["county", "town", "district"]


def test_one_by_one_is_the_same():
    results = []
    for concurrent in (True, False):
        lm, _ = example()
        prediction = run(lm, concurrent=concurrent)
        steps = [step.model_dump(exclude={"at"}) for step in prediction.trace.steps]
        results.append((prediction.answer, prediction.note, prediction.passages, steps))
    assert results[0] == results[1]


@pytest.mark.parametrize("preset", AdaptiveNote.presets)
def test_presets_set_style_and_passages(preset):
    lm, engine = example()
    values = AdaptiveNote.preset(preset)
    trace = run(lm, **values).trace
    assert inputs_of(engine, "answer")[0]["style"] == STYLES[values["style"]]
    assert {step.k for step in trace.of(Retrieved)} == {values["top_k"]}
    assert trace.of(Answered)[0].answer == "5,042"
