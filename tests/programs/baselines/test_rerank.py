"""RERANK: the sample whose citations hold best."""

import dspy
import pytest
from support import ScriptedEngine, TableEntailment, TableReranker

from knowgap.programs.baselines.alce import CitationRerank
from knowgap.programs.trace.steps import Answered, Extracted, Malformed, Selected

BORN, LIE = "Mira Osk was born in Tarn.", "Mira Osk was born in Lund."


def entails(premise, hypothesis):
    """A premise entails what ends in one of its words."""
    return 0.9 if hypothesis.split()[-1] in premise.split() else 0.1


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
def answer(whole, ask):
    def run(*samples, **kwargs):
        reranker = TableReranker(lambda query, text: -len(text) if "Prize" not in text else -999.0)
        settings = {"samples": len(samples), "concurrent": False, **kwargs}
        program = CitationRerank(whole, reranker=reranker, entailment=TableEntailment(entails), **settings)
        return ask(program, Samples(*samples))

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
        *["asked", "retrieved", "reranked"],
        *["extracted", "answered"] * 4,
        *["selected", "answered"],
    ]
    assert [step.branch for step in prediction.trace.of(Extracted)] == [f"sample {n}" for n in range(1, 5)]
    assert [p["title"] for p in engine.calls[0][1]["passages"]][:2] == ["Tarn", "Mira Osk"]
    assert engine.temperatures == [1.0] * 4


@pytest.mark.parametrize(
    ("samples", "settings", "chosen"),
    [
        ([HALF, WHOLE], {"entailment_threshold": 0.5}, "Tarn"),
        ([HALF, WHOLE], {"entailment_threshold": 0.95}, "Lund"),  # a tie, which goes to the earliest
        ([HALF, WHOLE], {"entailment_threshold": 0.05}, "Lund"),
        ([HALF, WHOLE], {"samples": 1}, "Lund"),
        ([sample("", (BORN, [2])), NONE], {}, "Wick"),  # a sample without an answer comes last
        # Cited passages count together.
        ([sample("x", ("Both by harbour and Tarn.", [1])), sample("y", (LIE, [2]), (BORN, [1, 2]))], {}, "y"),
    ],
)
def test_which_sample_is_chosen(answer, samples, settings, chosen):
    assert answer(*samples, **settings)[0].answer == chosen


def test_unreadable_samples(answer):
    prediction, _ = answer("[[ mumble", "[[ mumble", WHOLE, samples=2)
    assert [step.answer for step in prediction.trace.of(Answered)] == ["", "Tarn", "Tarn"]
    prediction, _ = answer(*["[[ mumble"] * 4, {"answer": "Tarn"}, samples=2)  # the last is plain retrieval
    assert (prediction.answer, len(prediction.passages), prediction.confidence) == ("Tarn", 4, 0.0)
    assert len(prediction.trace.of(Malformed)) == 2


def test_samples_are_drawn_apart_even_from_a_cache(whole):
    program = CitationRerank(whole, reranker=TableReranker(lambda *_: 0.0), entailment=TableEntailment(entails))
    engine = ScriptedEngine(lambda *_: WHOLE)
    with dspy.context(lm=dspy.LM("test/cached", engine=engine, cache=True, num_retries=0)):
        program(question="Where was Mira Osk born?")
        assert len(engine.calls) == 4
        again = program(question="Where was Mira Osk born?")
    assert len(engine.calls) == 4
    assert again.trace.cost.cached_calls == again.trace.cost.lm_calls == 4
    assert again.trace.cost.critical_calls == 1
