"""Baselines that answer simpler questions first: Least-to-Most and Self-Ask."""

import pytest
from support import OverlapRetriever, TableRetriever

from knowgap.programs.baselines.least_to_most import LeastToMost
from knowgap.programs.baselines.self_ask import SelfAsk
from knowgap.programs.trace.steps import Decomposed, Queried
from knowgap.signatures import STYLES

QUESTION = "Where was the director of Lanternfish born?"
WHO, WHERE = "Who directed Lanternfish?", "Where was Mira Osk born?"
SHORT, LONG = STYLES["short"], STYLES["long"]
KNOWN = [{"question": WHO, "answer": "Mira Osk"}, {"question": WHERE, "answer": "Tarn"}]
MORE = [{"needed": True, "query": WHO}, {"needed": True, "query": WHERE}, {"needed": False, "query": ""}]


@pytest.fixture
def retriever(corpus):
    film, director, town, _ = corpus
    return TableRetriever({WHO: [film, director], WHERE: [director, town]})


def replies(*answers):
    return [{"answer": answer} for answer in answers]


def test_least_to_most_answers_with_the_help_of_earlier_answers(ask, kinds):
    script = {"questions": [{"questions": [WHO, WHERE]}], "answer": replies("Mira Osk", "Tarn", "in Tarn")}
    prediction, engine = ask(LeastToMost(style="long"), script)
    assert (prediction.answer, prediction.passages) == ("in Tarn", [])
    assert kinds(prediction) == ["asked", "decomposed", "answered", "answered", "answered"]
    asked = [(i["question"], i["sub_answers"], i["style"]) for _, i in engine.calls[1:]]
    assert asked == [(WHO, [], SHORT), (WHERE, KNOWN[:1], SHORT), (QUESTION, KNOWN, LONG)]
    assert [sub.model_dump() for sub in prediction.sub_answers] == KNOWN


def test_least_to_most_limits_its_questions_and_leaves_out_the_question_itself(ask):
    many = [WHO, QUESTION.upper(), WHO, *(f"Question {n}?" for n in range(9))]
    script = {"questions": [{"questions": many}], "answer": lambda *_: {"answer": "x"}}
    prediction, _ = ask(LeastToMost(max_questions=3), script)
    assert prediction.trace.of(Decomposed)[0].questions == [WHO, "Question 0?", "Question 1?"]


def test_self_ask_looks_up_follow_ups_until_none_is_needed(retriever, ask, kinds):
    script = {"needed": MORE, "answer": replies("Mira Osk", "Tarn", "Tarn!")}
    prediction, engine = ask(SelfAsk(retriever, style="long"), script)
    assert (prediction.answer, prediction.trace.stopped) == ("Tarn!", "no follow-up needed")
    assert retriever.searched == [WHO, WHERE]
    assert [sub.model_dump() for sub in prediction.sub_answers] == KNOWN
    assert [passage.id for passage in prediction.passages] == ["film", "director", "town"]
    assert kinds(prediction) == [
        "asked",
        *["judged", "queried", "retrieved", "answered"] * 2,
        *["judged", "stopped", "answered"],
    ]
    assert [i["sub_answers"] for outputs, i in engine.calls if "needed" in outputs] == [[], KNOWN[:1], KNOWN]
    reads = [(i["question"], i["style"]) for _, i in engine.calls if "passages" in i]
    assert reads == [(WHO, SHORT), (WHERE, SHORT)]
    assert (engine.calls[-1][1]["sub_answers"], engine.calls[-1][1]["style"]) == (KNOWN, LONG)


def test_self_ask_looks_up_the_question_if_it_needs_no_follow_up(corpus, ask, kinds):
    script = {"needed": MORE[2:], "answer": replies("Tarn")}
    prediction, engine = ask(SelfAsk(OverlapRetriever(corpus), style="long"), script)
    assert (prediction.answer, prediction.sub_answers) == ("Tarn", [])
    assert kinds(prediction) == ["asked", "judged", "stopped", "retrieved", "answered"]
    assert engine.calls[-1][1]["style"] == LONG
    assert [p["title"] for p in engine.calls[-1][1]["passages"]] == [p.title for p in prediction.passages]


@pytest.mark.parametrize("again", ["who directed  lanternfish", "", "?"])
def test_self_ask_ends_with_a_repeated_or_empty_follow_up(retriever, ask, again):
    script = {"needed": [MORE[0], {"needed": True, "query": again}], "answer": replies("Mira Osk", "Tarn")}
    prediction, _ = ask(SelfAsk(retriever), script)
    assert (prediction.answer, prediction.trace.stopped) == ("Tarn", "no new follow-up")
    assert prediction.trace.of(Queried)[1].queries == []
