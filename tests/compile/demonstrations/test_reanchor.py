"""Decision thresholds: a yes counts from where it serves the answers best."""

from __future__ import annotations

import itertools
from typing import ClassVar

import dspy
import pytest
from compile_helpers import make_examples, make_retriever
from support import scripted_lm

from knowgap.compiling import compile, evaluate
from knowgap.compiling.run import Run
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
    examples = make_examples(20)
    for example in examples[1::2]:
        example.answer, example.aliases = "nobody", ["nobody"]
    return examples


@pytest.fixture
def program():
    return Decider(make_retriever(make_examples(20)))


def deciding_lm(decide):
    """A language model that gives house n the probability decide(n). Its name is new: answers are cached by name."""

    def rule(outputs, inputs):
        return {"relevant": {"noul": decide(int(inputs["question"].rstrip("?").split("q")[-1]))}}

    lm, engine = scripted_lm(rule)
    lm.model = f"test/{next(NUMBERS)}"
    return lm, engine


def doubt(number):
    """Even houses get a probability just under one half, odd ones a small one."""
    return round((0.1 if number % 2 else 0.4) + number / 1000, 3)


def reanchored(program, examples, lm, **more):
    return compile(program, examples, "exact_match", trainset=examples, optimizer="reanchor", lm=lm, **more).program


def score(program, examples, lm):
    return evaluate(program, examples, "exact_match", run=Run(lm=lm)).mean()


def test_the_threshold_that_serves_the_answers(program, examples):
    lm, engine = deciding_lm(doubt)
    assert score(program.configure(relevance=0.5), examples, lm) == 0.5
    program.configure(relevance=None)
    asked, reports = len(engine.calls), []
    tuned = reanchored(program, examples, lm, progress=lambda *report: reports.append(report))
    assert 0.12 < tuned.relevance < 0.4
    # Plainly in two formats, twice, since what cannot be read is not cached; then with probabilities.
    assert len(engine.calls) - asked == (2 * 2 + 1) * len(examples)
    assert len(reports) > 100
    assert score(tuned, examples, lm) == 1.0
    assert program.relevance is None
    assert type(tuned) is Decider


def test_a_plain_decision_stays_if_no_threshold_is_better(program):
    lm, examples = deciding_lm(lambda number: 0.9)[0], make_examples(20)
    tuned = reanchored(program, examples, lm)
    assert (tuned.relevance or 0.0) <= 0.9
    assert score(tuned, examples, lm) == 1.0


def test_a_failed_question_does_not_end_it(program, examples, caplog):
    def stumble(number):
        if number == 4:
            raise RuntimeError("stumbled")
        return doubt(number)

    lm = deciding_lm(stumble)[0]
    tuned = reanchored(program, examples, lm)
    assert 0.12 < tuned.relevance < 0.4
    failed = f"1 of 20 training questions failed and count as wrong; the first failed with: [{lm.model}] stumbled"
    assert failed in caplog.messages
    assert score(tuned, examples, lm) == 0.95


def test_refusals(program, examples):
    lm = deciding_lm(doubt)[0]
    with pytest.raises(UsageError, match="rag makes no decision"):
        reanchored(RAG(program.retriever), examples, lm)
    with pytest.raises(UsageError, match="decider makes no decision"):
        reanchored(program.deepcopy().configure(judging=False), examples, lm)

    def gone(number):
        raise LanguageModelUnreachable("connection refused")

    with pytest.raises(LanguageModelUnreachable, match="connection refused"):
        reanchored(program, examples, deciding_lm(gone)[0])
