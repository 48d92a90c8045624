"""MIGRES: when it goes on, what it asks next, when it stops, and what it makes of broken output."""

import pytest
from migres_script import (
    FERRY,
    GAP,
    MOOR,
    NOT_YET,
    PAINTED,
    QUESTION,
    SECOND,
    THIRD,
    ask,
    decide,
    last,
    learn,
    two_steps,
)
from migres_script import (
    small_as_in_the_paper as small,
)
from support import PLAINLY, UNREADABLE, TableEntailment, TableReranker

from knowgap.programs.migres import MIGRES
from knowgap.programs.trace.steps import Answered, Malformed, Missing, Prompted, Queried, Retrieved, Stopped


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_iterations_are_a_cap_and_the_last_answer_follows(iterations):
    prediction, engine = two_steps(
        small(iterations=iterations),
        leaf=lambda given: learn((f"Something of {given['passages'][0]['title']}.", 1)),
        main=lambda _: decide(NOT_YET, GAP),
        query=[ask(SECOND), ask(THIRD)],
        knowledge=lambda _: {"knows": True, "passage": "Some fact."},
    )
    assert prediction.trace.cost.iterations == iterations == len(prediction.trace.of(Retrieved))
    assert (engine.acts.count("main"), engine.acts.count("last")) == (iterations - 1, 1)
    assert engine.acts[-1] == "last"
    assert prediction.trace.stopped == "iterations"
    assert (prediction.answer, prediction.confidence) == ("Wick", 2)
    assert engine.asked("last")[0]["known"] == prediction.known
    assert len(prediction.known) == iterations
    assert prediction.missing == (GAP if iterations > 1 else "")


def test_main_is_not_asked_if_nothing_new_was_learnt():
    prediction, engine = two_steps(
        small(table={QUESTION: [FERRY], SECOND: [MOOR]}),
        leaf=[learn((PAINTED, 1)), learn((PAINTED, 1))],
        main=[decide(NOT_YET, GAP)],
        query=[ask(SECOND), ask("A dead end?"), ask("Another?"), ask("And another?")],
    )
    assert engine.acts == [
        *("leaf", "main", "query"),
        *("leaf", "query"),  # it learnt what it knew
        *("knowledge", "query"),
        *("knowledge", "query"),
        *("knowledge", "last"),
    ]
    assert len(prediction.trace.of(Missing)) == 1
    assert {given["missing"] for given in engine.asked("query")} == {GAP}
    assert prediction.missing == GAP


def test_if_all_queries_were_asked_the_missing_information_is_searched():
    prediction, _ = two_steps(small(), query=[ask(QUESTION, QUESTION.lower())])
    assert prediction.trace.of(Queried)[0].queries == [GAP]
    assert len(prediction.trace.of(Queried)[0].repeated) == 2
    assert prediction.trace.of(Retrieved)[1].queries == [GAP]


def test_if_nothing_new_can_be_asked_it_stops_and_answers():
    prediction, engine = two_steps(small(), query=[ask(QUESTION), ask(GAP)], main=[decide(NOT_YET, GAP)])
    assert [step.queries for step in prediction.trace.of(Queried)] == [[GAP], []]
    assert [step.reason for step in prediction.trace.of(Stopped)] == ["no new query"]
    assert engine.acts[-1] == "last"
    assert prediction.answer == "Wick"


@pytest.mark.parametrize(("said", "taken"), [(9, 5), (5, 5), (3, 3), (1, 1), (0, 1), (-4, 1)])
def test_confidence_is_held_between_one_and_five(said, taken):
    answered, _ = two_steps(small(), main=[decide("Wick", confidence=said)])
    assert answered.confidence == answered.trace.of(Answered)[0].confidence == taken
    at_last, _ = two_steps(small(iterations=1), last=[last("Wick", confidence=said)])
    assert at_last.confidence == taken


@pytest.mark.parametrize(
    ("missing", "taken"), [("", "Not said."), ("a date", "Not said."), ("ten chars!", "ten chars!")]
)
def test_missing_information_of_few_characters_gives_way_to_the_explanation(missing, taken):
    prediction, engine = two_steps(small(), main=[decide(NOT_YET, missing, explanation="Not said."), decide("Wick")])
    assert prediction.trace.of(Missing)[0].missing == taken
    assert engine.asked("query")[0]["missing"] == taken


# Output that cannot be read.


@pytest.mark.parametrize(
    ("act", "shows"),
    [
        ("leaf", lambda prediction, _: prediction.known == []),
        ("main", lambda _, engine: engine.asked("query")[0]["missing"] == QUESTION),
        ("query", lambda prediction, _: prediction.trace.of(Queried)[0].queries == [GAP]),
        ("knowledge", lambda prediction, _: prediction.trace.of(Prompted) == []),
        ("last", lambda _, engine: engine.acts[-1] == "reader"),
        ("summarise", lambda _, engine: "leaf" not in engine.acts),
    ],
)
def test_unreadable_output_counts_as_nothing_found(act, shows):
    compression = "summary" if act == "summarise" else "sentences"
    program = small({} if act == "knowledge" else None, iterations=2, compression=compression)
    prediction, engine = two_steps(program, **{act: UNREADABLE}, reader=PLAINLY)
    assert {step.act for step in prediction.trace.of(Malformed)} == {act}
    assert prediction.answer == (PLAINLY if act == "last" else "Wick")
    assert shows(prediction, engine)


def test_repeated_and_empty_statements_are_one_and_none():
    leaf = [learn((PAINTED, 1), (f"  {PAINTED}\n", 1), ("   ", 1)), learn()]
    assert two_steps(small(), leaf=leaf, query=[ask()])[0].known == [PAINTED]


# Presets.


@pytest.mark.parametrize(
    ("name", "iterations", "delta", "style"),
    [("multi_hop", 5, 3.0, "short"), ("open_domain", 3, 5.0, "short"), ("commonsense", 5, 0.0, "yes_no")],
)
def test_presets_are_those_of_table_12(name, iterations, delta, style):
    bge = TableReranker(lambda query, text: 0.0, -1.0)
    bge.name = "BAAI/bge-reranker-base"
    parts = {"entailment": TableEntailment()}
    program = MIGRES.from_preset(name, reranker=bge, **parts)
    assert (program.iterations, program.threshold, program.style) == (iterations, delta, style)
    assert (program.top_k, program.retrieve_k, program.max_queries) == (5, 50, 3)
