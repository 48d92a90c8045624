"""RERANK: the sample whose citations hold best."""

import dspy
import pytest
from support import ScriptedEngine, TableEntailment, TableReranker, TableRetriever

from knowgap.programs.baselines.rerank import CitationRerank
from knowgap.programs.trace.steps import Answered, Extracted, Malformed, Selected

QUESTION = "Where was the director of Lanternfish born?"
FILM, BORN, LIE = "Mira Osk directed Lanternfish.", "Mira Osk was born in Tarn.", "Mira Osk was born in Lund."


def entailment():
    """Entails what shares its last word with a premise."""
    return TableEntailment(lambda premise, hypothesis: 0.9 if hypothesis.split()[-1] in premise.split() else 0.1)


def sample(answer, *claims):
    return {"statements": [{"statement": text, "sources": ids} for text, ids in claims], "answer": answer}


class Samples(ScriptedEngine):
    """Gives each sample by its number; keeps the temperatures. The cache is off, so the number is counted here."""

    def __init__(self, *samples):
        super().__init__(lambda *_: samples[len(self.calls)])
        self.temperatures = []

    def complete(self, request):
        self.temperatures.append(request.config.temperature)
        return super().complete(request)


@pytest.fixture
def answer(corpus):
    def run(*samples, **kwargs):
        reranker = TableReranker(lambda query, text: -len(text) if "Prize" not in text else -999.0)
        program = CitationRerank(
            TableRetriever({QUESTION: corpus}),
            reranker=reranker,
            entailment=entailment(),
            samples=kwargs.pop("samples", len(samples)),
            concurrent=False,
            **kwargs,
        )
        engine = Samples(*samples)
        with dspy.context(lm=dspy.LM("test/samples", engine=engine, cache=False, num_retries=0)):
            return program(question=QUESTION), engine

    return run


# As reranked, shortest first: 1 Tarn, 2 Mira Osk, 3 Lanternfish, 4 Osk Prize.
HALF = sample("Lund", (LIE, [2]), (BORN, [2]))
WHOLE = sample("Tarn", (BORN, [2, 9]))
NONE = sample("Wick", (BORN, []), (LIE, [1]))


def test_takes_the_answer_with_the_highest_citation_recall(answer, kinds):
    prediction, engine = answer(HALF, WHOLE, NONE, sample("Other", (BORN, [2])))
    assert (prediction.answer, prediction.confidence) == ("Tarn", 1.0)
    assert prediction.answers == ["Lund", "Tarn", "Wick", "Other"]
    assert [passage.id for passage in prediction.passages] == ["director"]
    selected = prediction.trace.of(Selected)[0]
    assert selected.scores == {"sample 1": 0.5, "sample 2": 1.0, "sample 3": 0.0, "sample 4": 1.0}
    assert kinds(prediction) == [
        "asked",
        "retrieved",
        "reranked",
        *["extracted", "answered"] * 4,
        "selected",
        "answered",
    ]
    assert [step.branch for step in prediction.trace.of(Extracted)] == [f"sample {n}" for n in range(1, 5)]
    assert [p["title"] for p in engine.calls[0][1]["passages"]][:2] == ["Tarn", "Mira Osk"]
    assert engine.temperatures == [1.0] * 4
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.retrievals, cost.iterations, cost.passages) == (4, 1, 1, 4)


def test_cited_passages_count_together(answer):
    prediction, _ = answer(sample("x", ("Both by harbour and Tarn.", [1])), sample("y", (LIE, [2]), (BORN, [1, 2])))
    assert prediction.answer == "y"
    assert [passage.id for passage in prediction.passages] == ["director", "town"]


@pytest.mark.parametrize(("threshold", "chosen"), [(0.5, "Tarn"), (0.95, "Lund"), (0.05, "Lund")])
def test_the_threshold_decides_and_ties_go_to_the_earliest(answer, threshold, chosen):
    assert answer(HALF, WHOLE, entailment_threshold=threshold)[0].answer == chosen


def test_a_sample_without_an_answer_comes_last(answer):
    assert answer(sample("", (BORN, [2])), NONE)[0].answer == "Wick"


def test_settings(answer):
    prediction, engine = answer(HALF, WHOLE, samples=1, temperature=0.5, top_k=2)
    assert prediction.answer == "Lund"
    assert engine.temperatures == [0.5]
    assert len(engine.calls[0][1]["passages"]) == 2


def test_unreadable_samples(answer):
    prediction, _ = answer("mumble", "mumble", WHOLE, samples=2)
    assert prediction.answer == "Tarn"
    assert [step.answer for step in prediction.trace.of(Answered)] == ["", "Tarn", "Tarn"]
    prediction, _ = answer(*["mumble"] * 4, samples=2)
    assert (prediction.answer, prediction.passages, prediction.confidence) == ("", [], 0.0)
    assert len(prediction.trace.of(Malformed)) == 2


def test_samples_are_drawn_apart_even_from_a_cache(corpus):
    program = CitationRerank(
        TableRetriever({QUESTION: corpus}), reranker=TableReranker(lambda *_: 0.0), entailment=entailment()
    )
    engine = ScriptedEngine(lambda *_: WHOLE)
    with dspy.context(lm=dspy.LM("test/cached", engine=engine, cache=True, num_retries=0)):
        program(question=QUESTION)
        assert len(engine.calls) == 4
        again = program(question=QUESTION)
    assert len(engine.calls) == 4
    assert again.trace.cost.cached_calls == again.trace.cost.lm_calls == 4
    assert again.trace.cost.critical_calls == 1
