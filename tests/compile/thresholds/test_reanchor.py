"""Decision thresholds: a yes counts from where it serves the answers best."""

from __future__ import annotations

import itertools
from typing import ClassVar

import dspy
import pytest
from compile_helpers import make_examples, make_retriever
from support import scripted_lm

from knowgap.compile import calibrate_thresholds, evaluate
from knowgap.errors import LanguageModelUnreachable, UsageError
from knowgap.programs.base import Program
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.hyperparameters import Switch, Threshold
from knowgap.signatures import PassageRelevance

NUMBERS = itertools.count()


class Decider(Program):
    """Answers from its passage if it holds it for relevant."""

    name: ClassVar[str] = "decider"

    judging = Switch(True, "judge at all")
    relevance = Threshold("judge", "relevant", "when a passage is relevant", when={"judging": (True,)})

    def __init__(self, retriever=None, **kwargs):
        super().__init__(retriever, **kwargs)
        self.judge = dspy.Predict(PassageRelevance)

    def forward(self, question):
        passage = self.retrieve([question], 1)[0][0].passage
        relevant = True
        if self.judging:
            output = self.ask(self.judge, question=question, passage=str(passage))
            relevant = output is not None and output.relevant
        return dspy.Prediction(answer=passage.text.split()[0] if relevant else "nobody", passages=[passage])


@pytest.fixture
def examples():
    """Of twenty houses, those with an even number are answered; of the others nothing is known."""
    found = make_examples(20)
    for example in found[1::2]:
        example.answer, example.aliases = "nobody", ["nobody"]
    return found


@pytest.fixture
def program():
    return Decider(make_retriever(make_examples(20)))


def doubting_lm(fail_on=""):
    """Gives even houses a probability just under one half, odd ones a small one."""

    def rule(outputs, inputs):
        number = int(inputs["question"].rstrip("?").split("q")[-1])
        if fail_on and fail_on in inputs["question"]:
            raise RuntimeError("stumbled")
        yes = number % 2 == 0
        return {"relevant": {"noul": round((0.4 if yes else 0.1) + number / 1000, 3)}}

    return unlike_others(rule)


def unlike_others(rule):
    """A scripted language model under a name of its own: answers are looked up in DSPy's cache by that."""
    lm, engine = scripted_lm(rule)
    lm.model = f"test/{next(NUMBERS)}"
    return lm, engine


def test_the_threshold_that_serves_the_answers(program, examples):
    lm, engine = doubting_lm()
    program.configure(relevance=0.5)
    assert evaluate(program, examples, "exact_match", lm=lm).mean() == 0.5
    program.configure(relevance=None)
    asked, seen = len(engine.calls), []
    found = calibrate_thresholds(program, examples, metric="exact_match", lm=lm, progress=lambda *a: seen.append(a))
    assert 0.12 < found.thresholds["relevance"] < 0.4
    assert found.after == 1.0
    assert len(engine.calls) - asked <= 2 * len(examples)  # once plainly, once with probabilities
    assert len(seen) > 100
    tuned = found.apply(program)
    assert evaluate(tuned, examples, "exact_match", lm=lm).mean() == 1.0
    assert program.relevance is None
    assert type(tuned) is Decider


def test_a_plain_decision_stays_where_no_threshold_is_better(program):
    everything = make_examples(20)

    def rule(outputs, inputs):
        return {"relevant": {"noul": 0.9}}

    lm, _ = unlike_others(rule)
    found = calibrate_thresholds(program, everything, metric="exact_match", lm=lm)
    assert found.thresholds == {"relevance": None} or found.thresholds["relevance"] <= 0.9
    assert evaluate(found.apply(program), everything, "exact_match", lm=lm).mean() == 1.0


def test_a_failed_question_does_not_end_it(program, examples):
    lm, _ = doubting_lm(fail_on="house q4?")
    found = calibrate_thresholds(program, examples, metric="exact_match", lm=lm)
    assert 0.12 < found.thresholds["relevance"] < 0.4
    assert found.after == 0.95


def test_refusals(program, examples):
    lm, _ = doubting_lm()
    with pytest.raises(UsageError, match="rag makes no decision"):
        calibrate_thresholds(RAG(program.retriever), examples, metric="f1", lm=lm)
    with pytest.raises(UsageError, match="decider makes no decision"):
        calibrate_thresholds(program.configure(judging=False), examples, metric="f1", lm=lm)
    program.configure(judging=True)

    def gone(outputs, inputs):
        raise LanguageModelUnreachable("connection refused")

    with pytest.raises(LanguageModelUnreachable, match="connection refused"):
        calibrate_thresholds(program, examples, metric="f1", lm=unlike_others(gone)[0])
