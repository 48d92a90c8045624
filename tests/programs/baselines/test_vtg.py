"""VTG: statements are verified, evidence is searched for, what has none is dropped."""

import pytest
from support import TableEntailment, TableRetriever

from knowgap.programs.baselines.vtg import VTG
from knowgap.programs.trace.steps import Extracted, Malformed, Queried, Rejected

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


LAST = {"explanation": "it follows", "answer": "last", "confidence": 3}
LUND = draft("Lund", (WHO, [1]), (LIE, [1]))


def always(reply):
    return lambda *_: reply


def test_an_answer_whose_citations_hold_stands(program, ask, kinds):
    prediction, _ = ask(program(), {"statements": [draft("Osk", (WHO, [1]))]})
    assert (prediction.answer, prediction.known, prediction.trace.stopped) == ("Osk", [WHO], "verified")
    assert [passage.id for passage in prediction.passages] == ["film"]
    assert kinds(prediction) == ["asked", "retrieved", "extracted", "stopped", "answered"]


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
    extracted = [(step.statements, step.sources) for step in prediction.trace.of(Extracted)]
    assert extracted == [([WHO], [["film"]]), ([BORN], [["director"]])]
    asking = engine.calls[1][1]
    assert (asking["known"], asking["missing"], asking["asked"]) == ([WHO], BORN, [QUESTION])


def test_drafts_anew_from_what_is_verified_and_what_was_found(program, ask):
    script = {"statements": [LUND, draft("Tarn", (BORN, [2]))], "queries": [{"queries": [WHERE]}]}
    prediction, engine = ask(program(), script)
    assert (prediction.answer, prediction.known) == ("Tarn", [WHO, BORN])
    drafts = [[p["title"] for p in inputs["passages"]] for _, inputs in engine.calls if "passages" in inputs]
    assert drafts == [["Lanternfish", "Osk Prize"], ["Lanternfish", "Mira Osk", "Tarn"]]


@pytest.mark.parametrize(("iterations", "calls"), [(1, 2), (2, 4), (3, 6)])
def test_statements_without_evidence_are_dropped_in_the_end(program, ask, iterations, calls):
    script = {
        "statements": always(LUND),
        "queries": [{"queries": [WHERE]}, {"queries": ["another"]}],
        "explanation": [LAST],
    }
    prediction, engine = ask(program(iterations=iterations), script)
    assert (prediction.answer, prediction.known, prediction.trace.stopped) == ("last", [WHO], "iterations")
    assert [step.what for step in prediction.trace.of(Rejected)] == [LIE]
    assert engine.calls[-1][1]["known"] == [WHO]
    assert (len(engine.calls), prediction.trace.cost.iterations) == (calls, iterations)


@pytest.mark.parametrize("reply", ["[[ mumble", {"queries": []}, {"queries": [QUESTION]}])
def test_without_new_queries_the_statement_itself_is_searched(program, ask, reply):
    made = program()
    script = {"statements": always(LUND), "queries": always(reply), "explanation": [LAST]}
    prediction, _ = ask(made, script)
    assert made.retriever.searched == [QUESTION, LIE]
    assert prediction.trace.stopped == "no new query"
    assert [step.queries for step in prediction.trace.of(Queried)] == [[LIE], []]
    assert prediction.trace.of(Queried)[0].repeated == ([QUESTION] if reply == {"queries": [QUESTION]} else [])


@pytest.mark.parametrize("reply", ["[[ mumble", draft("Tarn"), draft("Tarn", (" ", [1]))])
def test_a_draft_without_statements_cannot_be_verified(program, ask, reply):
    prediction, _ = ask(program(), {"statements": always(reply), "explanation": [LAST]})
    assert (prediction.answer, prediction.trace.stopped) == ("last", "no statements")
    assert bool(prediction.trace.of(Malformed)) == (reply == "[[ mumble")
