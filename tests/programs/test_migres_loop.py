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
    acts,
    ask,
    decide,
    inputs,
    last,
    learn,
    small,
    two_steps,
)
from support import TableEntailment, TableReranker

from knowgap.errors import UnknownName
from knowgap.programs.migres import MIGRES
from knowgap.programs.trace.steps import Answered, Malformed, Missing, Prompted, Queried, Retrieved, Stopped
from knowgap.signatures import STYLES


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_iterations_are_a_cap_and_the_last_answer_follows(iterations):
    prediction, engine = two_steps(
        small(iterations=iterations),
        leaf=lambda _, given: learn((f"Something of {given['passages'][0]['title']}.", 1)),
        main=lambda *_: decide(NOT_YET, GAP),
        query=[ask(SECOND), ask(THIRD)],
        knowledge=lambda *_: {"passage": "Some fact."},
    )
    assert prediction.trace.cost.iterations == iterations
    assert len(prediction.trace.of(Retrieved)) == iterations
    assert acts(engine).count("main") == iterations - 1
    assert acts(engine)[-1] == "last"
    assert acts(engine).count("last") == 1
    assert prediction.trace.stopped == "iterations"
    assert (prediction.answer, prediction.confidence) == ("Wick", 2)
    assert inputs(engine, "last")[0]["known"] == prediction.known
    assert len(prediction.known) == iterations
    assert prediction.missing == (GAP if iterations > 1 else "")


def test_the_last_answer_is_not_asked_where_main_answers():
    _, engine = two_steps(small())
    assert "last" not in acts(engine)


def test_max_queries():
    queries = [f"Query {n}?" for n in range(5)]
    for most in (1, 3, 5):
        prediction, _ = two_steps(small(max_queries=most, iterations=2), query=[ask(*queries)])
        assert prediction.trace.of(Queried)[0].queries == queries[:most]
        assert prediction.trace.of(Retrieved)[1].queries == queries[:most]


def test_main_is_not_asked_where_nothing_new_was_learnt():
    prediction, engine = two_steps(
        small(table={QUESTION: [FERRY], SECOND: [MOOR]}),
        leaf=[learn((PAINTED, 1)), learn((PAINTED, 1))],
        main=[decide(NOT_YET, GAP)],
        query=[ask(SECOND), ask("A dead end?"), ask("Another?"), ask("And another?")],
    )
    assert acts(engine) == [
        *("leaf", "main", "query"),
        *("leaf", "query"),  # it learnt what it knew
        *("knowledge", "query"),
        *("knowledge", "query"),
        *("knowledge", "last"),
    ]
    assert len(prediction.trace.of(Missing)) == 1
    assert {given["missing"] for given in inputs(engine, "query")} == {GAP}
    assert prediction.missing == GAP


def test_main_is_asked_once_where_nothing_at_all_is_known():
    _, engine = two_steps(small({}), main=[decide(NOT_YET, GAP)], query=[ask(f"Query {n}?") for n in range(4)])
    assert acts(engine).count("main") == 1
    assert inputs(engine, "main")[0]["known"] == []


def test_where_all_queries_were_asked_the_missing_information_is_searched():
    prediction, _ = two_steps(small(), query=[ask(QUESTION, QUESTION.lower())])
    assert prediction.trace.of(Queried)[0].queries == [GAP]
    assert len(prediction.trace.of(Queried)[0].repeated) == 2
    assert prediction.trace.of(Retrieved)[1].queries == [GAP]


def test_where_nothing_new_can_be_asked_it_stops_and_answers():
    prediction, engine = two_steps(small(), query=[ask(QUESTION), ask(GAP)], main=[decide(NOT_YET, GAP)])
    assert [step.queries for step in prediction.trace.of(Queried)] == [[GAP], []]
    assert prediction.trace.stopped == "no new query"
    assert acts(engine)[-1] == "last"
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
    assert inputs(engine, "query")[0]["missing"] == taken


@pytest.mark.parametrize("no_answer", [NOT_YET, "Unanswerable.", "The question is unanswerable", "", "  "])
def test_what_counts_as_no_answer_yet(no_answer):
    prediction, engine = two_steps(small(), main=[decide(no_answer, GAP), decide("Wick")])
    assert acts(engine).count("main") == 2
    assert prediction.answer == "Wick"


def test_a_last_answer_that_is_none_becomes_unknown():
    for answer in (NOT_YET, "", "Unanswerable."):
        prediction, _ = two_steps(small(iterations=1), last=[last(answer)])
        assert prediction.answer == "unknown"
        assert prediction.trace.of(Answered)[0].answer == "unknown"


def test_style_reaches_whoever_answers():
    _, engine = two_steps(small(style="yes_no", iterations=2), query=[ask(SECOND)])
    assert [given["style"] for given in (*inputs(engine, "main"), *inputs(engine, "last"))] == [STYLES["yes_no"]] * 2


# Output that cannot be read.


@pytest.mark.parametrize("act", ["leaf", "main", "query", "knowledge", "last"])
def test_unreadable_output_counts_as_nothing_found(act):
    program = small({} if act == "knowledge" else None, iterations=2)
    prediction, engine = two_steps(program, **{act: lambda *_: "Sorry, I cannot help with that."})
    assert {step.act for step in prediction.trace.of(Malformed)} == {act}
    assert prediction.answer == ("unknown" if act == "last" else "Wick")
    assert prediction.trace.stopped
    expected = {
        "leaf": lambda: prediction.known == [],
        "main": lambda: inputs(engine, "query")[0]["missing"] == QUESTION,
        "query": lambda: prediction.trace.of(Queried)[0].queries == [GAP],
        "knowledge": lambda: prediction.trace.of(Prompted) == [],
        "last": lambda: prediction.confidence == 1,
    }
    assert expected[act]()


def test_unreadable_summaries_count_as_irrelevant():
    prediction, engine = two_steps(small(compression="summary"), summary=lambda *_: "{", query=[ask()])
    assert "leaf" not in acts(engine)
    assert {step.act for step in prediction.trace.of(Malformed)} == {"summarise"}


def test_repeated_and_empty_statements_are_one_and_none():
    prediction, _ = two_steps(
        small(), leaf=[learn((PAINTED, 1), (f"  {PAINTED}\n", 1), ("   ", 1)), learn()], query=[ask()]
    )
    assert prediction.known == [PAINTED]


# Presets.


def test_presets_are_those_of_table_12():
    assert set(MIGRES.presets) == {"multi_hop", "open_domain", "commonsense"}
    for name, iterations, delta in (("multi_hop", 5, 3.0), ("open_domain", 3, 5.0), ("commonsense", 5, 0.0)):
        program = small(**MIGRES.preset(name))
        assert (program.iterations, program.threshold, program.top_k, program.retrieve_k) == (iterations, delta, 5, 50)
    assert small(**MIGRES.preset("commonsense")).style == "yes_no"
    with pytest.raises(UnknownName, match="unknown preset of migres 'multihop': did you mean 'multi_hop'"):
        MIGRES.preset("multihop")


def test_copies_share_retriever_reranker_and_entailment():
    program = small()
    twin = program.deepcopy()
    assert twin.reranker is program.reranker
    assert twin.entailment is program.entailment
    assert twin.retriever is program.retriever
    assert [name for name, _ in twin.named_predictors()] == [
        "leaf",
        "main",
        "last",
        "query",
        "knowledge",
        "summarise",
        "snippet",
    ]


def test_stops_are_recorded_once():
    for prediction in (two_steps(small())[0], two_steps(small(iterations=1))[0]):
        assert len(prediction.trace.of(Stopped)) == 1
        assert len(prediction.trace.of(Answered)) == 1
        assert prediction.trace.steps[-1].kind == "answered"


def test_the_presets_threshold_is_for_the_reranker_on_whose_scale_it_is():
    other, bge = TableReranker(lambda query, text: 0.0, -1.0), TableReranker(lambda query, text: 0.0, -1.0)
    bge.name = "BAAI/bge-reranker-base"
    parts = {"entailment": TableEntailment()}
    assert MIGRES.from_preset("open_domain", reranker=other, **parts).threshold == -1.0
    assert MIGRES.from_preset("open_domain", reranker=bge, **parts).threshold == 5.0
    assert MIGRES.from_preset("open_domain", reranker=bge, delta=1.0, **parts).threshold == 1.0
    assert MIGRES.from_preset("open_domain", reranker=other, **parts).iterations == 3
