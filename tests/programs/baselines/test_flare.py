"""FLARE: sure sentences stand, unsure ones are searched for and rewritten."""

import dataclasses
import math
import re

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
    """Sentences in order, each with its confidence and answer; the text as its own shortened answer at the end."""
    remaining = list(sentences)

    def rule(outputs, inputs):
        if "text" in inputs:
            return {"answer": inputs["text"]}
        step = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        if isinstance(step, str):
            return step
        sentence, confidence, answer = step
        return {"reasoning": sentence, "confidence": confidence, "finished": bool(answer), "answer": answer}

    return rule


@pytest.fixture
def retriever(corpus):
    film, director, town, prize = corpus
    return TableRetriever({QUESTION: [film], WRONG: [director, town], "She was born": [director], ONE: [prize]})


def test_a_sentence_with_an_improbable_token_is_searched_for_without_it(retriever, ask, kinds):
    engine = TokenEngine(writing((ONE, 0.1, ""), (WRONG, 1.0, ""), (TWO, 0.1, "Tarn")), {"in": 0.39, "Lund.": 0.05})
    prediction, _ = ask(FLARE(retriever), engine)
    assert (prediction.answer, prediction.sentences) == ("Tarn", [ONE, TWO])
    assert retriever.searched == [QUESTION, "She was born"]
    assert [passage.id for passage in prediction.passages] == ["film", "director"]
    assert kinds(prediction) == [
        *["asked", "retrieved", "judged", "reasoned"],
        *["judged", "queried", "retrieved", "reasoned", "stopped", "answered"],
    ]
    assert [(step.value, step.reason) for step in prediction.trace.of(Judged)] == [
        (True, "lowest token probability 0.95, θ = 0.8"),
        (False, "lowest token probability 0.05, θ = 0.8"),
    ]
    assert [inputs["known"] for _, inputs in engine.calls] == [[], [ONE], [ONE]]
    titles = [[p["title"] for p in inputs["passages"]] for _, inputs in engine.calls]
    assert titles == [["Lanternfish"], ["Lanternfish"], ["Mira Osk"]]
    assert engine.asked == [True] * 3


@pytest.mark.parametrize(
    ("settings", "searched"),
    [
        ({"theta": 0.04}, []),
        ({"beta": 0.01}, [WRONG]),
        ({"beta": 0.06}, ["She was born in"]),
        ({"beta": 1.0}, [WRONG]),  # nothing of the sentence would be left
    ],
)
def test_thresholds(retriever, ask, settings, searched):
    engine = TokenEngine(writing((WRONG, 1.0, "Lund")), {"in": 0.39, "Lund.": 0.05})
    assert ask(FLARE(retriever, **settings), engine)[0].answer == "Lund"
    assert retriever.searched[1:] == searched


@pytest.mark.parametrize(
    ("refusal", "asked"),
    [
        (None, [True] * 4),  # asked for, and not given
        (UnsupportedFeatureError("none here"), [True, False, False, False, False]),
        (InvalidRequestError("unknown parameter"), [True, False, False, False, False]),
    ],
)
def test_without_log_probabilities_the_stated_confidence_stands_in(retriever, ask, refusal, asked):
    sentences = writing((ONE, 0.9, ""), (WRONG, 0.5, ""), (WRONG, 0.5, ""), (TWO, 0.9, "Tarn"))
    prediction, engine = ask(FLARE(retriever), TokenEngine(sentences, refusal=refusal))
    assert prediction.answer == "Tarn"
    assert retriever.searched == [QUESTION, WRONG]
    assert prediction.trace.of(Judged)[1].reason == "stated confidence 0.50, θ = 0.8"
    assert engine.asked == asked


def test_log_probabilities_can_be_left_unasked(retriever, ask):
    _, engine = ask(FLARE(retriever, logprobs="never"), TokenEngine(writing((TWO, 0.9, "Tarn")), {"in": 0.1}))
    assert engine.asked == [False]

    def fails(outputs, inputs):
        raise InvalidRequestError("not allowed")

    for setting, asked in (("auto", [True, False]), ("never", [False])):
        engine = TokenEngine(fails)
        with pytest.raises(LMInvalidRequestError, match="not allowed"):
            ask(FLARE(retriever, logprobs=setting), engine)
        assert engine.asked == asked


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ((ONE, 0.9, "x"), "repeated sentence"),
        (("", 0.9, ""), "no sentence"),
        ("?", "no sentence"),
        ((TWO, 0.9, ""), "iterations"),
    ],
)
def test_a_text_without_an_answer_is_shortened(retriever, ask, second, reason):
    prediction, _ = ask(FLARE(retriever, iterations=2), writing((ONE, 0.9, ""), second))
    assert prediction.trace.stopped == reason
    assert prediction.sentences == ([ONE, TWO] if reason == "iterations" else [ONE])
    assert prediction.answer == " ".join(prediction.sentences)
    assert bool(prediction.trace.of(Malformed)) == (second == "?")


def test_the_draft_stands_if_it_cannot_be_rewritten(retriever, ask):
    prediction, _ = ask(FLARE(retriever), writing((WRONG, 0.1, "Lund"), "?"))
    assert prediction.trace.of(Queried)[0].queries == [WRONG]
    assert prediction.trace.of(Reasoned)[0].text == WRONG
    assert prediction.answer == "Lund"


def test_without_a_sentence_the_passages_are_shortened(retriever, corpus, ask):
    assert ask(FLARE(retriever), writing("?"))[0].answer == str(corpus[0])
