"""The three strategies of RQ-RAG, section 2.3, against numbers worked out by hand."""

import math

import pytest

from knowgap.programs.trajectory import (
    Trajectory,
    perplexity,
    probability,
    select_trajectory,
    summed_confidence,
    trajectory_weights,
)


def leaf(path, answer, probability=None, stated=0.0, generated=None):
    """A trajectory whose answer has one token; each action of its path searched once and found nothing."""
    return Trajectory(
        path=path,
        searches=tuple((action, ()) for action in path.split("/") if action),
        answer=answer,
        answer_logprobs=None if probability is None else (math.log(probability),),
        stated=stated,
        generated=generated,
    )


def test_the_ensemble_adds_up_probabilities_so_that_agreement_counts():
    leaves = [leaf("", "the Rome.", 0.2), leaf("rewrite", "Paris", 0.6), leaf("decompose", "Rome", 0.5)]
    selection = select_trajectory("ensemble", leaves)
    assert selection.scores == pytest.approx({"the Rome.": 0.7, "Paris": 0.6})
    assert (selection.best.path, selection.best.answer) == ("decompose", "Rome")  # the surest of the group
    # A sum of log-probabilities would have preferred the one that stands alone.
    assert math.log(0.2) + math.log(0.5) < math.log(0.6)


def test_perplexity_counts_every_generated_token():
    short = leaf("", "Rome", 0.5, generated=[math.log(0.5)])  # 2.0
    long = leaf("rewrite", "Paris", 0.25, generated=[math.log(1.0), math.log(1.0), math.log(0.25)])  # 4 ** (1/3)
    selection = select_trajectory("perplexity", [short, long])
    assert selection.best.path == "rewrite"
    assert selection.scores == pytest.approx({"direct": 2.0, "rewrite": 4 ** (1 / 3)})


@pytest.mark.parametrize("strategy", ["perplexity", "confidence", "ensemble"])
@pytest.mark.parametrize(
    ("answers", "winner"),
    [
        ({"": "Oslo", "rewrite": "Rome", "decompose": "Paris"}, "rewrite"),  # never the root, then the earliest
        ({"": "Oslo", "rewrite": "Rome", "rewrite/rewrite": "Paris"}, "rewrite/rewrite"),  # the longest path
        ({"rewrite": "Rome", "rewrite/rewrite": "Oslo", "decompose": "Rome"}, "rewrite"),  # most votes
        ({"": "Rome", "rewrite": "Rome", "decompose/rewrite": "Oslo"}, "rewrite"),  # most votes, but not from memory
    ],
)
def test_ties(strategy, answers, winner):
    leaves = [leaf(path, answer, 0.5, generated=(math.log(0.5),)) for path, answer in answers.items()]
    if strategy == "ensemble":  # the sums tie where every answer has the same share of one
        votes = [list(answers.values()).count(answer) for answer in answers.values()]
        leaves = [leaf(each.path, each.answer, 0.5 / n) for each, n in zip(leaves, votes, strict=True)]
    assert select_trajectory(strategy, leaves).best.path == winner


@pytest.mark.parametrize("strategy", ["perplexity", "confidence", "ensemble"])
def test_one_answer_without_tokens_puts_all_on_stated_confidence(strategy):
    leaves = [
        leaf("", "Rome", 0.9, stated=0.2, generated=[-0.1]),
        leaf("rewrite", "Paris", None, stated=0.7),
        leaf("decompose", "Oslo", 0.8, stated=0.3, generated=[-0.2]),
    ]
    selection = select_trajectory(strategy, leaves)
    assert (selection.best.answer, selection.measured) == ("Paris", False)
    assert [one.confidence for one in selection.leaves] == [0.2, 0.7, 0.3]
    assert sorted(selection.scores.values()) == [0.2, 0.3, 0.7]


def test_an_unreadable_answer_neither_counts_nor_spoils_the_measure():
    selection = select_trajectory("ensemble", [leaf("", "", None), leaf("rewrite", "Paris", 0.1)])
    assert (selection.best.answer, selection.measured) == ("Paris", True)
    assert select_trajectory("ensemble", [leaf("", "")]) is None
    assert select_trajectory("perplexity", []) is None


def test_answers_too_long_for_a_float_are_still_told_apart():
    long = [Trajectory(path=str(n), answer=f"answer {n}", answer_logprobs=(-2000.0, -n)) for n in (5, 1, 3)]
    assert all(one.confidence == 0.0 for one in long)
    assert select_trajectory("confidence", long).best.path == "1"
    assert select_trajectory("ensemble", long).best.path == "1"
    assert trajectory_weights("ensemble", long)[0] == pytest.approx([math.exp(-4), 1.0, math.exp(-2)])


def test_the_formulas_by_hand():
    assert perplexity([math.log(0.5), math.log(0.125)]) == pytest.approx(4.0)  # 1 / sqrt(1/16)
    assert perplexity([0.0]) == 1.0
    assert perplexity([]) == math.inf
    assert math.isfinite(perplexity([-10_000.0]))
    assert probability([math.log(0.5), math.log(0.25)]) == pytest.approx(0.125)
    assert summed_confidence(["Rome", "Paris", "the Rome"], [0.5, 0.25, 0.125]) == {
        "rome": (0.625, [0, 2]),
        "paris": (0.25, [1]),
    }
