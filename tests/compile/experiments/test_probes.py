"""Probes of single modules: what they measure is what the data and the model's words say."""

from __future__ import annotations

import dspy
import pytest
from support import OverlapRetriever, TableEntailment, by_output, scripted_lm

from knowgap.compile import evaluate
from knowgap.compile.experiments.measures import score_metrics
from knowgap.compile.experiments.probes import (
    Extraction,
    MissingInformation,
    OwnKnowledge,
    SubModules,
    evidence,
    probe_metric,
)
from knowgap.errors import DataError, UsageError
from knowgap.retrieval.passage import Passage

STEPS = [
    {"question": "Who designed the Orle bridge?", "answer": "Ada Venn"},
    {"question": "Where was Ada Venn born?", "answer": "Tarn"},
]
EXAMPLE = dspy.Example(
    id="q1",
    question="Where was the designer of the Orle bridge born?",
    answer="Tarn",
    aliases=["Tarn"],
    gold_ids=["bridge", "venn"],
    decomposition=STEPS,
).with_inputs("question")
PASSAGES = [
    Passage("bridge", "Orle bridge", "The Orle bridge was designed by Ada Venn."),
    Passage("venn", "Ada Venn", "Ada Venn was born in Tarn."),
    Passage("moth", "Moth", "The designer of the moth was born nowhere."),
]


def run(probe, rule, metrics):
    lm, engine = scripted_lm(by_output(rule))
    result = evaluate(probe, [EXAMPLE], score_metrics(metrics), lm=lm, num_threads=1)
    assert not result.failures, result.failures
    return result.records[0].scores, engine


def test_extraction_compares_what_is_cited_with_what_holds_an_answer():
    probe = Extraction([EXAMPLE], OverlapRetriever(PASSAGES))
    probe.entailment = TableEntailment(lambda premise, hypothesis: float("moth" not in premise))

    def cite(outputs, inputs):
        numbers = {p["title"]: p["id"] for p in inputs["passages"]}
        return {"statements": [{"statement": "Something.", "sources": [numbers["Orle bridge"], numbers["Moth"]]}]}

    names = [f"probe:{n}" for n in ("useful", "precision", "recall", "entailed_precision", "entailed_recall")]
    scores, engine = run(probe, {"statements": cite}, names)
    assert [scores[name] for name in names] == [1.0, 0.5, 0.5, 1.0, 0.5]
    assert engine.calls[0][1]["queries"] == [step["question"] for step in STEPS]


def test_extraction_of_nothing_has_no_precision():
    names = ["probe:useful", "probe:precision", "probe:recall"]
    probe = Extraction([EXAMPLE], OverlapRetriever(PASSAGES))
    scores, _ = run(probe, {"statements": lambda *_: {"statements": []}}, names)
    assert [scores[name] for name in names] == [0.0, None, 0.0]


def reply(answer: str, missing: str = ""):
    return {"explanation": "so", "answer": answer, "confidence": 3, "missing": missing}


def test_with_all_the_evidence_an_answer_is_right_and_giving_up_is_wrong():
    for answer, score in (("Tarn", 1.0), ("unanswerable", 0.0)):
        scores, engine = run(
            MissingInformation([EXAMPLE]), {"missing": lambda *_, a=answer: reply(a)}, ["probe:accuracy", "probe:match"]
        )
        assert scores["probe:accuracy"] == score
        assert scores["probe:match"] is None
        assert len(engine.calls[0][1]["known"]) == 2


def test_with_a_part_of_it_what_is_missing_has_to_be_an_open_sub_question():
    for missing, match in (("who designed the Orle bridge", 1.0), ("the colour of the moth", 0.0)):
        probe = MissingInformation([EXAMPLE], seed=1, partial=True)
        rule = {
            "missing": lambda *_, m=missing: reply("unanswerable", m + " and where Ada Venn was born" * (m[0] == "w"))
        }
        scores, engine = run(probe, rule, ["probe:accuracy", "probe:match"])
        assert (scores["probe:accuracy"], scores["probe:match"]) == (1.0, match)
        assert len(engine.calls[0][1]["known"]) < 2
    scores, _ = run(probe, {"missing": lambda *_: reply("Tarn")}, ["probe:accuracy", "probe:match"])
    assert (scores["probe:accuracy"], scores["probe:match"]) == (0.0, None)


def test_own_knowledge_counts_the_sub_answers_it_contains():
    scores, _ = run(
        OwnKnowledge([EXAMPLE]), {"passage": lambda *_: {"passage": "Ada Venn, of Lund."}}, ["probe:contains"]
    )
    assert scores["probe:contains"] == 0.5


def test_sub_modules_are_held_against_the_data():
    rule = {
        "knows": lambda *_: {"knows": True},
        "relevant": lambda o, i: {"relevant": "Tarn" in i["passage"] or "moth" in i["passage"]},
        "questions": lambda *_: {"questions": ["Who designed the Orle bridge?", "Where was the designer born?"]},
        "answer": lambda *_: {"answer": "Lund"},
    }
    names = ["probe:knows", "probe:relevance", "probe:decomposition"]
    scores, _ = run(SubModules([EXAMPLE], OverlapRetriever(PASSAGES)), rule, names)
    assert [scores[name] for name in names] == [0.0, pytest.approx(2 / 3), 1.0]


def test_evidence_comes_from_the_data_and_a_probe_asks_its_own_data_alone():
    assert evidence(EXAMPLE) == [(step["question"], step["answer"]) for step in STEPS]
    triples = dspy.Example(question="q", evidences=[["Orle bridge", "designer", "Ada Venn"]])
    assert evidence(triples) == [("designer of Orle bridge?", "Ada Venn")]
    both = dspy.Example(
        question="q", evidences=triples.evidences, decomposition=[{"question": "Who?", "answer": "She."}]
    )
    assert evidence(both) == [("Who?", "Ada Venn")]
    with pytest.raises(DataError, match="no evidence"):
        evidence(dspy.Example(question="q"))
    with pytest.raises(UsageError, match="its own data"):
        OwnKnowledge([EXAMPLE])(question="Another one?")
    with pytest.raises(DataError, match="contains"):
        probe_metric("contains")(EXAMPLE, dspy.Prediction(measured={}))
