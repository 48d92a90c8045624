"""VTG: statements are verified, evidence is searched for, what has none is dropped."""

import pytest
from support import TableEntailment, TableRetriever

from knowgap.programs.baselines.vtg import VTG
from knowgap.programs.trace.steps import Extracted, Malformed, Missing, Queried, Rejected

QUESTION = "Where was the director of Lanternfish born?"
WHO, BORN, LIE = "Mira Osk directed Lanternfish.", "Mira Osk was born in Tarn.", "Mira Osk was born in Lund."
WHERE = "Where was Mira Osk born?"


def entails(premise, hypothesis):
    needed = {WHO: "directed by Mira Osk", BORN: "born in Tarn"}.get(hypothesis)
    return 0.9 if needed and needed in premise else 0.2


@pytest.fixture
def program(corpus):
    film, director, town, prize = corpus

    def make(**kwargs):
        retriever = TableRetriever({QUESTION: [film, prize], WHERE: [director, town], LIE: [town]})
        return VTG(retriever, entailment=TableEntailment(entails), **kwargs)

    return make


def draft(answer, *claims):
    return {"statements": [{"statement": text, "sources": ids} for text, ids in claims], "answer": answer}


def last(answer="last"):
    return {"explanation": "it follows", "answer": answer, "confidence": 3}


def test_an_answer_whose_citations_hold_stands(program, ask, kinds):
    made = program()
    prediction, engine = ask(made, {"statements": [draft("Osk", (WHO, [1]))]})
    assert (prediction.answer, prediction.known) == ("Osk", [WHO])
    assert [passage.id for passage in prediction.passages] == ["film"]
    assert kinds(prediction) == ["asked", "retrieved", "extracted", "stopped", "answered"]
    assert prediction.trace.stopped == "verified"
    assert len(engine.calls) == 1


def test_evidence_found_later_verifies_the_draft(program, ask, kinds):
    made = program()
    script = {"statements": [draft("Tarn", (WHO, [1]), (BORN, [1]))], "queries": [{"queries": [WHERE]}]}
    prediction, engine = ask(made, script)
    assert (prediction.answer, prediction.known) == ("Tarn", [WHO, BORN])
    assert made.retriever.searched == [QUESTION, WHERE]
    assert [passage.id for passage in prediction.passages] == ["film", "director"]
    assert kinds(prediction) == [
        *["asked", "retrieved", "extracted", "missing", "queried"],
        *["retrieved", "extracted", "stopped", "answered"],
    ]
    assert [step.statements for step in prediction.trace.of(Extracted)] == [[WHO], [BORN]]
    assert prediction.trace.of(Extracted)[1].sources == [["director"]]
    assert prediction.trace.of(Missing)[0].missing == BORN
    asking = engine.calls[1][1]
    assert (asking["known"], asking["missing"], asking["asked"]) == ([WHO], BORN, [QUESTION])
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.iterations) == (2, 2, 2, 2)


def test_drafts_anew_from_what_is_verified_and_what_was_found(program, ask):
    script = {
        "statements": [draft("Lund", (WHO, [1]), (LIE, [1])), draft("Tarn", (BORN, [2]))],
        "queries": [{"queries": [WHERE]}],
    }
    prediction, engine = ask(program(), script)
    assert (prediction.answer, prediction.known) == ("Tarn", [WHO, BORN])
    drafts = [[p["title"] for p in inputs["passages"]] for _, inputs in engine.calls if "passages" in inputs]
    assert drafts == [["Lanternfish", "Osk Prize"], ["Lanternfish", "Mira Osk", "Tarn"]]


def test_statements_without_evidence_are_dropped_in_the_end(program, ask):
    script = {
        "statements": lambda *_: draft("Lund", (WHO, [1]), (LIE, [1])),
        "queries": [{"queries": [WHERE]}, {"queries": ["another"]}],
        "explanation": [last("Tarn")],
    }
    prediction, engine = ask(program(), script)
    assert prediction.trace.stopped == "iterations"
    assert (prediction.answer, prediction.known) == ("Tarn", [WHO])
    assert [step.what for step in prediction.trace.of(Rejected)] == [LIE]
    assert engine.calls[-1][1]["known"] == [WHO]
    assert (len(engine.calls), prediction.trace.cost.iterations) == (6, 3)


@pytest.mark.parametrize(("iterations", "calls"), [(1, 2), (2, 4)])
def test_rounds_are_limited(program, ask, iterations, calls):
    script = {
        "statements": lambda *_: draft("Lund", (LIE, [1])),
        "queries": [{"queries": [WHERE]}],
        "explanation": [last()],
    }
    prediction, engine = ask(program(iterations=iterations), script)
    assert len(engine.calls) == calls
    assert prediction.answer == "last"


@pytest.mark.parametrize("reply", ["mumble", {"queries": []}, {"queries": [QUESTION]}])
def test_without_new_queries_the_statement_itself_is_searched(program, ask, reply):
    script = {
        "statements": lambda *_: draft("Lund", (LIE, [1])),
        "queries": lambda *_: reply,
        "explanation": [last()],
    }
    made = program()
    prediction, _ = ask(made, script)
    assert made.retriever.searched == [QUESTION, LIE]
    assert prediction.trace.stopped == "no new query"
    assert prediction.trace.of(Queried)[1].queries == []
    assert prediction.trace.of(Queried)[0].repeated == ([QUESTION] if reply == {"queries": [QUESTION]} else [])


@pytest.mark.parametrize("reply", ["mumble", draft("Tarn"), draft("Tarn", (" ", [1]))])
def test_a_draft_without_statements_cannot_be_verified(program, ask, reply):
    prediction, _ = ask(program(), {"statements": lambda *_: reply, "explanation": [last()]})
    assert prediction.trace.stopped == "no statements"
    assert prediction.answer == "last"
    assert bool(prediction.trace.of(Malformed)) == (reply == "mumble")


def test_hyperparameters(program, ask):
    script = {
        "statements": lambda *_: draft("Lund", (WHO, [1]), (LIE, [1])),
        "queries": lambda *_: {"queries": [WHERE, "two", "three", "four"]},
        "explanation": lambda *_: last(),
    }
    made = program(max_queries=2, memory=2, top_k=1, iterations=2)
    _, engine = ask(made, script)
    assert made.retriever.searched == [QUESTION, WHERE, "two"]
    assert [len(inputs["passages"]) for _, inputs in engine.calls if "passages" in inputs] == [1, 2]
    assert ask(program(entailment_threshold=0.1), script)[0].trace.stopped == "verified"
    assert ask(program(entailment_threshold=0.95), script)[0].known == []


def test_unreadable_last_answer(program, ask):
    prediction, _ = ask(program(), lambda *_: "mumble")
    assert (prediction.answer, prediction.passages) == ("", [])
