"""Probes of single modules: what they measure is what the data and the model's words say."""

from __future__ import annotations

import dspy
import pytest
from support import OverlapRetriever, TableEntailment, by_output, scripted_lm

from knowgap.compiling import evaluate
from knowgap.compiling.experiments.probes import PROBES, evidence, score_metrics
from knowgap.compiling.run import Run
from knowgap.errors import DataError
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
WITHOUT_EVIDENCE = dspy.Example(id="q2", question="Who?", answer="Ada Venn", aliases=["Ada Venn"])
PASSAGES = [
    Passage("bridge", "Orle bridge", "The Orle bridge was designed by Ada Venn."),
    Passage("venn", "Ada Venn", "Ada Venn was born in Tarn."),
    Passage("moth", "Moth", "The designer of the moth was born nowhere."),
]


def measure(name: str, rules: dict, metrics: list[str], example: dspy.Example = EXAMPLE, **options):
    """The scores of a probe on one question under a model that replies by rules, and the first call's inputs."""
    if name == "probe_extraction":
        options["entailment"] = TableEntailment(lambda premise, hypothesis: float("moth" not in premise))
    probe = PROBES[name]([example], OverlapRetriever(PASSAGES), **options)
    replies = {field: (lambda *_, r=rule: r) if isinstance(rule, dict) else rule for field, rule in rules.items()}
    lm, engine = scripted_lm(by_output(replies))
    names = [f"probe:{metric}" for metric in metrics]
    result = evaluate(probe, [example], score_metrics(names), run=Run(lm=lm, num_threads=1))
    assert not result.failures, result.failures
    return [result.records[0].scores[metric] for metric in names], engine.calls[0][1]


def test_extraction_compares_what_is_cited_with_what_holds_an_answer():
    def cite(outputs, inputs):
        numbers = {p["title"]: p["id"] for p in inputs["passages"]}
        return {"statements": [{"statement": "Something.", "sources": [numbers["Orle bridge"], numbers["Moth"]]}]}

    metrics = ["extracted_where_positive", "precision", "recall", "entailed_precision", "entailed_recall"]
    scores, inputs = measure("probe_extraction", {"statements": cite}, metrics)
    assert scores == [1.0, 0.5, 0.5, 1.0, 0.5]
    assert inputs["queries"] == [step["question"] for step in STEPS]
    assert measure("probe_extraction", {"statements": {"statements": []}}, metrics[:3])[0] == [0.0, None, 0.0]


@pytest.mark.parametrize(
    ("partial", "answer", "missing", "scores"),
    [
        (False, "Tarn", "", [1.0, None]),
        (False, "", "", [0.0, None]),
        (True, "", "who designed the Orle bridge and where Ada Venn was born", [1.0, 1.0]),
        (True, "", "the colour of the moth", [1.0, 0.0]),
        (True, "Tarn", "", [0.0, None]),
    ],
)
def test_missing_information_is_right_to_answer_with_all_the_evidence_alone(partial, answer, missing, scores):
    reply = {"explanation": "so", "answerable": bool(answer), "answer": answer, "confidence": 3, "missing": missing}
    options = {"seed": 1, "partial": partial}
    measured, inputs = measure("probe_missing", {"missing": reply}, ["accuracy", "match"], **options)
    assert measured == scores
    assert (len(inputs["known"]) < 2) == partial


def test_own_knowledge_counts_the_sub_answers_it_contains():
    reply = {"passage": {"passage": "Ada Venn, of Lund."}}
    assert measure("probe_own_knowledge", reply, ["contains"])[0] == [0.5]
    assert measure("probe_own_knowledge", reply, ["contains"], WITHOUT_EVIDENCE)[0] == [1.0]


def test_sub_modules_are_held_against_the_data():
    rules = {
        "knows": {"knows": True},
        "relevant": lambda o, i: {"relevant": "Tarn" in i["passage"] or "moth" in i["passage"]},
        "questions": {"questions": ["Who designed the Orle bridge?", "Where was the designer born?"]},
        "answer": {"answer": "Lund"},
    }
    metrics = ["knows", "relevance", "decomposition"]
    changes = {"gold or with the answer": {}, "with the answer": {"gold_ids": []}, "gold": {"answer": "yes"}}
    expected = {"gold or with the answer": 1 / 3, "with the answer": 2 / 3, "gold": 1 / 3}
    for case, change in changes.items():
        example = dspy.Example({**EXAMPLE, "aliases": [], **change}).with_inputs("question")
        measured = measure("probe_sub_modules", rules, metrics, example)[0]
        assert measured == [0.0, pytest.approx(expected[case]), 1.0], case


def test_evidence_comes_from_the_data():
    assert evidence(EXAMPLE) == [(step["question"], step["answer"]) for step in STEPS]
    triples = dspy.Example(question="q", evidences=[["Orle bridge", "designer", "Ada Venn"]])
    assert evidence(triples) == [("designer of Orle bridge?", "Ada Venn")]
    both = dspy.Example({**triples, "decomposition": [{"question": "Who?", "answer": "She."}]})
    assert evidence(both) == [("Who?", "Ada Venn")]
    with pytest.raises(DataError, match="no evidence"):
        evidence(dspy.Example(question="q"))
    with pytest.raises(DataError, match="contains"):
        score_metrics(["probe:contains"])["probe:contains"](EXAMPLE, dspy.Prediction(measured={}))
