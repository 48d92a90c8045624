"""MIGRES by default: it plans in one reply, hears of every query, reads twice and stops when it learns no more."""

import pytest
from migres_script import (
    BORN,
    FERRY,
    GAP,
    MOOR,
    NOISE,
    NOT_YET,
    PAINTED,
    QUESTION,
    SCORES,
    SECOND,
    TABLE,
    THIRD,
    ask,
    decide,
    last,
    learn,
    small,
)
from support import UNREADABLE, TableEntailment, play

from knowgap.programs.trace.steps import Extracted, Judged, Missing, Queried, Rejected, Withheld


def plan(*queries, answer=NOT_YET, guess=""):
    """What the main module says where it writes the queries, too."""
    said = {**decide(answer, "" if answer else GAP, confidence=5), "queries": list(queries)}
    return {**said, "answer": answer or guess}


REST = {
    **dict.fromkeys(("leaf", "leaf_linking"), learn()),
    "plan": plan(),
    "main": decide(NOT_YET, GAP),
    "query": ask(),
    "sufficiency": {"suffices": True},
    "reader": {"answer": "unknown"},
    **dict.fromkeys(("last", "last_reading"), last("Wick")),
    "knowledge": {"knows": False, "passage": ""},
}


def run(program=None, **script):
    """Ask with these replies, after which nothing more is learnt, asked or known."""
    replies = {act: [*script.get(act, []), *[reply] * 9] for act, reply in REST.items()}
    return play(program or small(), QUESTION, **replies)


def titles(engine):
    """The passages of each call of the leaf module."""
    calls = engine.asked("leaf_linking") or engine.asked("leaf")
    return [[passage["title"] for passage in given["passages"]] for given in calls]


def test_two_steps_take_four_calls():
    learnt = [learn((PAINTED, 1)), learn((BORN, 1))]
    prediction, engine = run(leaf_linking=learnt, plan=[plan(SECOND, THIRD), plan(answer="Wick")])
    assert engine.acts == ["leaf_linking", "plan"] * 2
    assert (prediction.answer, prediction.confidence, prediction.trace.stopped) == ("Wick", 5, "answered")
    assert [step.queries for step in prediction.trace.of(Queried)] == [[SECOND, THIRD]]
    assert [step.missing for step in prediction.trace.of(Missing)] == [GAP]
    assert [given["known"] for given in engine.asked("leaf_linking")] == [[], [PAINTED]]
    first, second = engine.asked("plan")
    assert (first["asked"], second["asked"]) == ([QUESTION], [QUESTION, SECOND, THIRD])
    assert prediction.trace.cost.lm_calls == 4


@pytest.mark.parametrize(
    ("settings", "acts"),
    [
        ({"show_known": False}, ["leaf", "plan"] * 2),
        ({"plan_together": False}, ["leaf_linking", "main", "query", "leaf_linking", "main"]),
        ({"plan_together": False, "show_known": False}, ["leaf", "main", "query", "leaf", "main"]),
    ],
)
def test_each_switch_brings_back_a_call_of_the_papers(settings, acts):
    learnt = [learn((PAINTED, 1)), learn((BORN, 1))]
    prediction, engine = run(
        small(**settings),
        **dict.fromkeys(("leaf", "leaf_linking"), learnt),
        plan=[plan(SECOND), plan(answer="Wick")],
        main=[decide(NOT_YET, GAP), decide("Wick")],
        query=[ask(SECOND)],
    )
    assert (engine.acts, prediction.answer) == (acts, "Wick")


@pytest.mark.parametrize("written", [[], [QUESTION, QUESTION.lower()]])
def test_without_a_new_query_what_is_missing_is_searched_for(written):
    learnt = [learn((PAINTED, 1)), learn((BORN, 1))]
    program = small({QUESTION: [FERRY], GAP: [MOOR]})
    prediction, engine = run(program, leaf_linking=learnt, plan=[plan(*written), plan(answer="Wick")])
    assert engine.acts == ["leaf_linking", "plan"] * 2
    assert [step.queries for step in prediction.trace.of(Queried)] == [[GAP]]


def test_an_answer_without_any_statement_does_not_end_the_search():
    script = {"leaf_linking": [learn(), learn((BORN, 1))], "plan": [plan(answer="Tarn"), plan(answer="Wick")]}
    prediction, engine = run(**script, query=[ask(SECOND)])
    assert engine.acts == ["leaf_linking", "plan", "query", "leaf_linking", "plan"]
    assert (prediction.answer, prediction.trace.stopped) == ("Wick", "answered")


@pytest.mark.parametrize("written", [[], [SECOND]])
def test_a_second_look_at_the_statements_may_send_an_answer_back(written):
    learnt, plans = [learn((PAINTED, 1)), learn((BORN, 1))], [plan(*written, answer="Tarn"), plan(answer="Wick")]
    looks = [{"suffices": False}, {"suffices": True}]
    program = small(second_look=True)
    prediction, engine = run(program, leaf_linking=learnt, plan=plans, sufficiency=looks, query=[ask(SECOND)])
    asks_anew = [] if written else ["query"]  # a reply that answers has no queries as a rule
    assert engine.acts == ["leaf_linking", "plan", "sufficiency", *asks_anew, "leaf_linking", "plan", "sufficiency"]
    assert [given["known"] for given in engine.asked("sufficiency")] == [[PAINTED], [PAINTED, BORN]]
    assert [step.value for step in prediction.trace.of(Judged)] == [False, True]
    assert prediction.answer == "Wick"


@pytest.mark.parametrize(("read", "answer"), [("Wick", "Wick"), ("unknown", "It was Wick.")])
def test_the_answer_may_be_asked_for_alone_over_the_passages_it_rests_on(read, answer):
    script = {"leaf_linking": [learn((PAINTED, 1), (BORN, 1))], "plan": [plan(answer="It was Wick.")], "reader": [read]}
    prediction, engine = run(small(answer_alone=True), **script)
    assert engine.acts == ["leaf_linking", "plan", "reader"]
    assert [p["title"] for p in engine.asked("reader")[0]["passages"]] == [p.title for p in prediction.passages]
    assert prediction.answer == answer


def test_a_second_look_that_cannot_be_read_changes_nothing():
    script = {"leaf_linking": [learn((PAINTED, 1))], "plan": [plan(answer="Wick")], "sufficiency": [UNREADABLE]}
    assert run(small(second_look=True), **script)[0].trace.stopped == "answered"


@pytest.mark.parametrize("guess", ["Tarn", "", "unknown"])
def test_a_guess_that_nothing_was_learnt_since_is_the_answer(guess):
    plans = [plan(SECOND, guess="Lome"), plan(THIRD, guess=guess)]
    prediction, engine = run(leaf_linking=[learn((PAINTED, 1))], plan=plans)
    known = guess == "Tarn"
    assert prediction.trace.stopped == "nothing new"
    assert engine.acts == [*["leaf_linking", "plan"] * 2, "leaf_linking", *(() if known else ("last_reading",))]
    assert prediction.answer == ("Tarn" if known else "Wick")


def test_a_guess_from_nothing_gives_way_to_the_passages():
    prediction, engine = run(plan=[plan(SECOND, guess="Lome"), plan(THIRD, guess="Lome")])
    assert engine.acts[-1] == "last_reading"
    assert prediction.answer == "Wick"


@pytest.mark.parametrize("correct", [True, False])
def test_a_statement_with_a_wrong_citation_is_put_down_to_the_passage_that_says_it(correct):
    program = small(correct_sources=correct, top_k=2)
    program.entailment = TableEntailment(lambda premise, hypothesis: float(premise.startswith("The Grey Ferry")))
    prediction, _ = run(program, leaf_linking=[learn((PAINTED, 2))], plan=[plan(answer="Wick")])
    [learnt, *_] = prediction.trace.of(Extracted)
    assert learnt.statements == ([PAINTED] if correct else [])
    assert prediction.trace.of(Rejected) == [] if correct else prediction.trace.of(Rejected)


def test_the_last_answer_sees_what_gave_no_statement():
    prediction, engine = run(small(iterations=2), leaf_linking=[learn((PAINTED, 1))], plan=[plan(SECOND)])
    [given] = engine.asked("last_reading")
    assert [passage["title"] for passage in given["passages"]] == ["Ada Moor", "Ferries"]
    assert {MOOR, FERRY} <= set(prediction.passages)
    _, engine = run(small(second_reading=False), plan=[plan(SECOND)])
    assert engine.acts[-1] == "last"


@pytest.mark.parametrize(("each_query", "second"), [(True, "Ferries"), (False, "The Grey Ferry")])
def test_the_best_passage_of_each_query_is_read_before_the_next_best_of_all(each_query, second):
    table = {**TABLE, THIRD: [NOISE]}
    score = {**SCORES, (SECOND, "The Grey Ferry"): 5.0, (THIRD, "Ferries"): 4.0, (QUESTION, "Ferries"): 0.0}
    program = small(table, score, each_query=each_query, top_k=2)
    _, engine = run(program, plan=[plan(SECOND, THIRD)])
    assert titles(engine)[1] == ["Ada Moor", second]


@pytest.mark.parametrize(
    ("learnt", "settings", "third"),
    [
        ([], {}, True),  # it was read once, and nothing was taken
        ([(PAINTED, 1)], {}, False),
        ([], {"second_reading": False}, False),
        ([(PAINTED, 1)], {"memory": False}, True),
    ],
)
def test_a_passage_without_a_statement_is_read_once_more_for_a_new_query(learnt, settings, third):
    table = {QUESTION: [FERRY], SECOND: [FERRY, MOOR], THIRD: [FERRY, NOISE]}
    score = {**SCORES, (SECOND, "The Grey Ferry"): 5.0, (THIRD, "The Grey Ferry"): 5.0, (THIRD, "Ferries"): 4.0}
    program = small(table, score, patience=9, **settings)
    prediction, engine = run(program, leaf_linking=[learn(*learnt), learn((BORN, 1))], plan=[plan(SECOND), plan(THIRD)])
    assert titles(engine)[:2] == [["The Grey Ferry"], ["Ada Moor", *["The Grey Ferry"] * third]]
    assert ("The Grey Ferry" in titles(engine)[2]) is ("memory" in settings)  # never a third time
    assert bool(prediction.trace.of(Withheld)) is ("memory" not in settings)
    assert all(step.passages[0] == "ferry" for step in prediction.trace.of(Withheld))


@pytest.mark.parametrize(("patience", "searches"), [(1, 1), (2, 2), (3, 3)])
def test_iterations_without_a_new_statement_end_the_search(patience, searches):
    queries = {"plan": [plan(query) for query in (SECOND, THIRD, "Who else?", "And then?", "And now?")]}
    prediction, engine = run(small(patience=patience), **queries)
    assert prediction.trace.cost.iterations == searches
    assert (prediction.trace.stopped, engine.acts[-1], prediction.answer) == ("nothing new", "last_reading", "Wick")
    learnt = [learn((PAINTED, 1)), learn((BORN, 1))]  # whatever was learnt begins the count anew
    again, _ = run(small(patience=patience), **queries, leaf_linking=learnt)
    assert again.trace.cost.iterations == 2 + searches


@pytest.mark.parametrize(("score", "found_nothing"), [(4.0, [THIRD]), (2.0, [])])
def test_a_query_found_nothing_if_what_was_read_of_it_gave_nothing(score, found_nothing):
    table = {**TABLE, THIRD: [NOISE]}
    program = small(table, {**SCORES, (THIRD, "Ferries"): score}, min_passages=0)
    learnt = [learn((PAINTED, 1)), learn((BORN, 1))]
    _, engine = run(program, leaf_linking=learnt, plan=[plan(SECOND, THIRD, "Who else?"), plan(answer="Wick")])
    assert [given["found_nothing"] for given in engine.asked("plan")] == [[], found_nothing]


@pytest.mark.parametrize(
    ("settings", "acts"),
    [
        ({"max_calls": 1}, ["last_reading"]),
        ({"max_calls": 2}, ["leaf_linking", "last_reading"]),
        ({"max_calls": 3}, ["leaf_linking", "plan", "last_reading"]),
        ({"max_calls": 1, "prompt_knowledge": False}, ["plan"]),
        ({"max_calls": 2, "prompt_knowledge": False}, ["leaf_linking", "plan"]),
        ({"max_calls": 4, "prompt_knowledge": False}, ["leaf_linking", "plan"] * 2),
    ],
)
def test_the_last_of_max_calls_is_the_answer(settings, acts):
    learnt = [learn((PAINTED, 1)), learn((BORN, 1))]
    plans = [plan(SECOND)] * (acts[:-1].count("plan")) + [plan(answer="Wick")]
    prediction, engine = run(small(**settings), leaf_linking=learnt, plan=plans)
    assert (engine.acts, prediction.answer) == (acts, "Wick")
