"""FLARE: sure sentences stand, unsure ones are searched for and written anew."""

import dataclasses
import math
import re

import dspy
import pytest
from dspy.lm15 import InvalidRequestError, TokenLogprob, UnsupportedFeatureError
from dspy.utils.exceptions import LMInvalidRequestError
from support import ScriptedEngine, TableRetriever

from knowgap.programs.baselines.flare import FLARE
from knowgap.programs.trace.steps import Judged, Malformed, Queried, Reasoned

QUESTION = "Where was the director of Lanternfish born?"
ONE, WRONG, TWO = "Mira Osk directed Lanternfish.", "She was born in Lund.", "Mira Osk was born in Tarn."


class TokenEngine(ScriptedEngine):
    """Gives log-probabilities where asked to: one token per word; the words of `unsure` have their own."""

    def __init__(self, rule, unsure=(), refusal=None):
        super().__init__(rule)
        self.unsure, self.refusal, self.asked = dict(unsure), refusal, []

    def complete(self, request):
        wanted = request.config.logprobs is not None
        self.asked.append(wanted)
        if wanted and self.refusal:
            raise self.refusal
        response = super().complete(request)
        if not wanted or self.unsure == {}:
            return response
        words = re.findall(r"\s*\S+|\s+", response.message.text)
        scored = [TokenLogprob(word, math.log(self.unsure.get(word.strip(), 0.95))) for word in words]
        return dataclasses.replace(response, logprobs=tuple(scored))


def writing(*sentences):
    """Sentences in order, each with its confidence and answer; the shortened answer at the end."""
    remaining = list(sentences)

    def rule(outputs, inputs):
        if "text" in inputs:
            return {"answer": f"short: {inputs['text'][:30]}"}
        step = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        if isinstance(step, str):
            return step
        return dict(zip(("reasoning", "confidence", "answer"), step, strict=True))

    return rule


@pytest.fixture
def retriever(corpus):
    film, director, town, prize = corpus
    return TableRetriever({QUESTION: [film], WRONG: [director, town], "She was born": [director], ONE: [prize]})


def run(program, engine):
    with dspy.context(lm=dspy.LM("test/tokens", engine=engine, cache=False, num_retries=0)):
        return program(question=QUESTION)


def test_a_sentence_with_an_improbable_token_is_searched_for_without_it(retriever, kinds):
    engine = TokenEngine(writing((ONE, 0.1, ""), (WRONG, 1.0, ""), (TWO, 0.1, "Tarn")), {"in": 0.39, "Lund.": 0.05})
    prediction = run(FLARE(retriever), engine)
    assert prediction.answer == "Tarn"
    assert prediction.sentences == [ONE, TWO]
    assert retriever.searched == [QUESTION, "She was born"]
    assert [passage.id for passage in prediction.passages] == ["film", "director"]
    assert kinds(prediction) == [
        *["asked", "retrieved", "judged", "reasoned"],
        *["judged", "queried", "retrieved", "reasoned"],
        *["stopped", "answered"],
    ]
    assert [(step.value, step.reason) for step in prediction.trace.of(Judged)] == [
        (True, "lowest token probability 0.95, θ = 0.8"),
        (False, "lowest token probability 0.05, θ = 0.8"),
    ]
    assert [inputs["known"] for _, inputs in engine.calls] == [[], [ONE], [ONE]]
    assert [[p["title"] for p in inputs["passages"]] for _, inputs in engine.calls][1:] == [
        ["Lanternfish"],
        ["Mira Osk"],
    ]
    assert engine.asked == [True] * 3
    cost = prediction.trace.cost
    assert (cost.lm_calls, cost.critical_calls, cost.retrievals, cost.iterations, cost.passages) == (3, 3, 2, 2, 2)


@pytest.mark.parametrize(
    ("settings", "searched"),
    [
        ({"theta": 0.04}, []),
        ({"beta": 0.01}, [WRONG]),
        ({"beta": 0.06}, ["She was born in"]),
        ({"beta": 1.0}, [WRONG]),  # nothing of the sentence would be left
    ],
)
def test_thresholds(retriever, settings, searched):
    engine = TokenEngine(writing((WRONG, 1.0, "Lund")), {"in": 0.39, "Lund.": 0.05})
    prediction = run(FLARE(retriever, **settings), engine)
    assert retriever.searched[1:] == searched
    assert prediction.answer == "Lund"


def test_stated_confidence_stands_in(retriever):
    engine = TokenEngine(writing((ONE, 0.9, ""), (WRONG, 0.5, ""), (TWO, 0.9, "Tarn")))
    prediction = run(FLARE(retriever, top_k=1), engine)
    assert prediction.answer == "Tarn"
    assert retriever.searched == [QUESTION, WRONG]
    assert prediction.trace.of(Judged)[1].reason == "stated confidence 0.50, θ = 0.8"
    assert [passage.id for passage in prediction.passages] == ["film", "director"]


@pytest.mark.parametrize("refusal", [UnsupportedFeatureError("none here"), InvalidRequestError("unknown parameter")])
def test_a_backend_that_refuses_log_probabilities_is_asked_without(retriever, refusal):
    engine = TokenEngine(writing((ONE, 0.9, ""), (TWO, 0.9, "Tarn")), refusal=refusal)
    prediction = run(FLARE(retriever), engine)
    assert prediction.answer == "Tarn"
    assert engine.asked == [True, False, False]
    assert "stated confidence" in prediction.trace.of(Judged)[0].reason


def test_log_probabilities_can_be_left_unasked(retriever):
    engine = TokenEngine(writing((TWO, 0.9, "Tarn")), {"in": 0.1})
    prediction = run(FLARE(retriever, logprobs="never"), engine)
    assert engine.asked == [False]
    assert prediction.trace.cost.retrievals == 1


def test_an_invalid_request_without_log_probabilities_is_an_error(retriever):
    def fails(outputs, inputs):
        raise InvalidRequestError("not allowed")

    with pytest.raises(LMInvalidRequestError, match="not allowed"):
        run(FLARE(retriever, logprobs="never"), TokenEngine(fails))


def test_sentences_are_limited_and_the_text_is_shortened(retriever):
    numbers = iter(range(99))

    def rule(outputs, inputs):
        if "text" in inputs:
            return {"answer": inputs["text"]}
        return {"reasoning": f"Tarn has {next(numbers)} lamps.", "confidence": 0.9, "answer": ""}

    prediction = run(FLARE(retriever, iterations=2), TokenEngine(rule))
    assert prediction.trace.stopped == "iterations"
    assert prediction.answer == "Tarn has 0 lamps. Tarn has 1 lamps."


@pytest.mark.parametrize(
    ("second", "reason"), [((ONE, 0.9, "x"), "repeated sentence"), (("", 0.9, ""), "no sentence"), ("?", "no sentence")]
)
def test_a_sentence_that_adds_nothing_ends_the_text(retriever, second, reason):
    prediction = run(FLARE(retriever), TokenEngine(writing((ONE, 0.9, ""), second)))
    assert prediction.trace.stopped == reason
    assert prediction.sentences == [ONE]
    assert prediction.answer == f"short: {ONE}"
    assert bool(prediction.trace.of(Malformed)) == (second == "?")


def test_where_rewriting_fails_the_draft_stands(retriever):
    replies = [(WRONG, 0.1, "Lund"), "?"]
    prediction = run(FLARE(retriever), TokenEngine(writing(*replies)))
    assert prediction.trace.of(Queried)[0].queries == [WRONG]
    assert prediction.trace.of(Reasoned)[0].text == WRONG
    assert prediction.answer == "Lund"


def test_without_a_sentence_the_passages_are_shortened(retriever):
    prediction = run(FLARE(retriever), TokenEngine(writing("?")))
    assert prediction.answer == "short: Lanternfish: Lanternfish is a"
