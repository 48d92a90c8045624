"""The three strategies of RQ-RAG, section 2.3, against numbers worked out by hand."""

import math

import pytest

from knowgap.programs.rq_rag import RQRAG, Trajectory, _weights
from knowgap.programs.trace.recorder import TraceRecorder, recording
from knowgap.programs.trace.steps import Asked, Selected


def select_trajectory(strategy, leaves):
    """The prediction that is made of these leaves, and the scores that the trace shows."""
    recorder = TraceRecorder(0.0, concurrent=False)
    with recording(recorder):
        recorder.add(Asked(question="Where?"))
        prediction = RQRAG(strategy=strategy)._select(leaves)
    [step] = [step for step in recorder.steps if isinstance(step, Selected)]
    return prediction, step.scores


def leaf(path, answer, probability=None, stated=0.0, generated=None):
    """A trajectory whose answer has one token; each action of its path searched once and found nothing."""
    return Trajectory(
        path=path or "direct",
        queries=tuple(path.split("/")) if path else (),
        found=((),) * len(path.split("/")) if path else (),
        answer=answer,
        answer_logprobs=None if probability is None else (math.log(probability),),
        stated=stated,
        generated=generated,
    )


def test_the_ensemble_adds_up_probabilities_so_that_agreement_counts():
    leaves = [leaf("", "the Rome.", 0.2), leaf("rewrite", "Paris", 0.6), leaf("decompose", "Rome", 0.5)]
    chosen, scores = select_trajectory("ensemble", leaves)
    assert scores == pytest.approx({"the Rome.": 0.7, "Paris": 0.6})
    assert (chosen.path, chosen.answer) == ("decompose", "Rome")  # the surest of the group
    # A sum of log-probabilities would have preferred the one that stands alone.
    assert math.log(0.2) + math.log(0.5) < math.log(0.6)


@pytest.mark.parametrize("strategy", ["perplexity", "confidence", "ensemble"])
@pytest.mark.parametrize(
    ("answers", "winner"),
    [
        ({"": "Oslo", "rewrite": "Rome", "decompose": "Paris"}, "rewrite"),  # never the root, then the earliest
        ({"": "Oslo", "rewrite": "Rome", "rewrite/rewrite": "Paris"}, "rewrite/rewrite"),  # the longest path
    ],
)
def test_ties(strategy, answers, winner):
    leaves = [leaf(path, answer, 0.5, generated=(math.log(0.5),)) for path, answer in answers.items()]
    assert select_trajectory(strategy, leaves)[0].path == winner


@pytest.mark.parametrize("strategy", ["perplexity", "confidence", "ensemble"])
def test_one_answer_without_tokens_puts_all_on_stated_confidence(strategy):
    leaves = [
        leaf("", "Rome", 0.9, stated=0.2, generated=[-0.1]),
        leaf("rewrite", "Paris", None, stated=0.7),
        leaf("decompose", "Oslo", 0.8, stated=0.3, generated=[-0.2]),
    ]
    chosen, scores = select_trajectory(strategy, leaves)
    assert (chosen.answer, chosen.measure) == ("Paris", "stated confidence")
    assert [one["confidence"] for one in chosen.leaves] == [0.2, 0.7, 0.3]
    assert sorted(scores.values()) == [0.2, 0.3, 0.7]


def test_an_unreadable_answer_neither_counts_nor_spoils_the_measure():
    chosen, _ = select_trajectory("ensemble", [leaf("", "", None), leaf("rewrite", "Paris", 0.1)])
    assert (chosen.answer, chosen.measure) == ("Paris", "token log-probabilities")
    assert select_trajectory("ensemble", [leaf("", "")])[0].answer == "unknown"
    assert select_trajectory("perplexity", [])[0].answers == []


def test_answers_too_long_for_a_float_are_still_told_apart():
    long = [Trajectory(path=str(n), answer=f"answer {n}", answer_logprobs=(-2000.0, -n)) for n in (5, 1, 3)]
    assert all(one.confidence == 0.0 for one in long)
    assert select_trajectory("confidence", long)[0].path == "1"
    assert select_trajectory("ensemble", long)[0].path == "1"
    assert _weights("ensemble", long)[0] == pytest.approx([math.exp(-4), 1.0, math.exp(-2)])


def test_the_formulas_by_hand():
    assert Trajectory(generated=(math.log(0.5), math.log(0.125))).perplexity == pytest.approx(4.0)  # 1 / sqrt(1/16)
    assert Trajectory(generated=(0.0,)).perplexity == 1.0
    assert Trajectory(generated=None).perplexity is None
    assert math.isfinite(Trajectory(generated=(-10_000.0,)).perplexity or math.inf)
    assert Trajectory(answer_logprobs=(math.log(0.5), math.log(0.25))).confidence == pytest.approx(0.125)
