"""Self-Ask: follow-ups, their answers, and when they end."""

import pytest
from support import OverlapRetriever, TableRetriever

from knowgap.programs.baselines.self_ask import SelfAsk
from knowgap.programs.trace.steps import Answered, Judged, Malformed, Queried
from knowgap.signatures import STYLES

WHO, WHERE = "Who directed Lanternfish?", "Where was Mira Osk born?"
MORE = [{"needed": True, "query": WHO}, {"needed": True, "query": WHERE}, {"needed": False, "query": ""}]


@pytest.fixture
def retriever(corpus):
    film, director, town, _ = corpus
    return TableRetriever({WHO: [film, director], WHERE: [director, town]})


def replies(*answers):
    return [{"answer": answer} for answer in answers]


def test_asks_until_no_follow_up_is_needed(retriever, ask, kinds):
    script = {"needed": MORE, "answer": replies("Mira Osk", "Tarn", "Tarn!")}
    prediction, engine = ask(SelfAsk(retriever, style="long"), script)
    assert prediction.answer == "Tarn!"
    assert retriever.searched == [WHO, WHERE]
    assert [(sub.question, sub.answer) for sub in prediction.sub_answers] == [(WHO, "Mira Osk"), (WHERE, "Tarn")]
    assert [passage.id for passage in prediction.passages] == ["film", "director", "town"]
    assert kinds(prediction) == [
        "asked",
        *["judged", "queried", "retrieved", "answered"] * 2,
        "judged",
        "stopped",
        "answered",
    ]
    assert prediction.trace.stopped == "no follow-up needed"
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.iterations, cost.passages) == (6, 6, 2, 3, 3)
    follow_ups = [inputs for outputs, inputs in engine.calls if "needed" in outputs]
    assert [len(inputs["sub_answers"]) for inputs in follow_ups] == [0, 1, 2]
    reads = [inputs for _, inputs in engine.calls if "passages" in inputs]
    assert [inputs["question"] for inputs in reads] == [WHO, WHERE]
    assert reads[0]["style"] == STYLES["short"]
    assert engine.calls[-1][1]["style"] == STYLES["long"]
    assert engine.calls[-1][1]["sub_answers"] == [
        {"question": WHO, "answer": "Mira Osk"},
        {"question": WHERE, "answer": "Tarn"},
    ]


def test_where_nothing_is_to_be_asked_first_the_question_is_looked_up(corpus, ask, kinds):
    retriever = OverlapRetriever(corpus)
    prediction, engine = ask(SelfAsk(retriever, style="long"), {"needed": MORE[2:], "answer": replies("Tarn")})
    assert prediction.answer == "Tarn"
    assert prediction.sub_answers == []
    assert kinds(prediction) == ["asked", "judged", "stopped", "retrieved", "answered"]
    assert engine.calls[-1][1]["style"] == STYLES["long"]
    assert [p["title"] for p in engine.calls[-1][1]["passages"]] == [p.title for p in prediction.passages]


def test_follow_ups_are_limited(retriever, ask):
    numbers = iter(range(99))
    endless = {"needed": lambda *_: {"needed": True, "query": f"Question {next(numbers)}?"}, "answer": lambda *_: "x"}
    prediction, _ = ask(SelfAsk(retriever, iterations=2), endless)
    assert prediction.trace.stopped == "iterations"
    assert len(retriever.searched) == 2
    assert [sub.answer for sub in prediction.sub_answers] == ["unknown", "unknown"]
    assert prediction.answer == ""


@pytest.mark.parametrize("again", ["who directed  lanternfish", "", "?"])
def test_a_follow_up_that_was_asked_or_is_empty_ends_them(retriever, ask, again):
    script = {"needed": [MORE[0], {"needed": True, "query": again}], "answer": replies("Mira Osk", "Tarn")}
    prediction, _ = ask(SelfAsk(retriever), script)
    assert prediction.trace.stopped == "no new follow-up"
    assert prediction.trace.of(Queried)[1].queries == []
    assert prediction.answer == "Tarn"


def test_unreadable_follow_up_ends_them(retriever, ask):
    prediction, _ = ask(SelfAsk(retriever), {"needed": lambda *_: "hm", "answer": replies("Tarn")})
    assert prediction.trace.stopped == "unreadable follow-up"
    assert prediction.trace.of(Malformed)[0].act == "follow_up"
    assert prediction.answer == "Tarn"


def test_top_k(retriever, ask):
    script = {"needed": MORE, "answer": replies("Mira Osk", "Tarn", "Tarn")}
    prediction, _ = ask(SelfAsk(retriever, top_k=1), script)
    assert [step.passages for step in prediction.trace.of(Answered)] == [["film"], ["director"], ["film", "director"]]


@pytest.mark.parametrize(("probability", "asked"), [(0.69, []), (0.71, [WHO])])
def test_threshold_decides_whether_a_follow_up_is_needed(retriever, ask, probability, asked):
    gate = {"needed": {"noul": probability}, "query": WHO}
    script = {"needed": [gate, {"needed": {"noul": 0.0}, "query": ""}], "answer": lambda *_: {"answer": "x"}}
    prediction, _ = ask(SelfAsk(retriever, follow_up_threshold=0.7), script)
    assert [query for query in retriever.searched if query == WHO] == asked
    assert prediction.trace.of(Judged)[0].value == bool(asked)
