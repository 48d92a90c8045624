"""Rerankers that are trained on what an index finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import OverlapRetriever
from training_helpers import write_tiny_bert

from knowgap.compiling.data.dataset import Dataset, make_example
from knowgap.compiling.training import RerankerConfig
from knowgap.compiling.training.fit import fit
from knowgap.compiling.training.reranker import (
    RankedQuestion,
    find_candidates,
    rerank,
    reranker,
    reranker_job,
    score_orders,
    training_pairs,
    untrained_reranker,
)
from knowgap.compiling.training.trained import compare_models, held_out_questions
from knowgap.errors import UsageError
from knowgap.retrieval import make_reranker
from knowgap.retrieval.passage import Passage

NAMES = ["Orle", "Tarn", "Venn", "Brisk", "Quay", "Moss", "Fell", "Dune"]
CORPUS = [
    Passage(f"{name}-{what}", f"{name} {what}", f"The {name} {what} is old.")
    for name in NAMES
    for what in ("Bridge", "Tower")
]
EXAMPLES = [
    make_example(
        id=name, question=f"How old is the {name} Bridge?", answers=["very"], type="", gold_ids=[f"{name}-Bridge"]
    )
    for name in NAMES
]
QUICK = {"epochs": 2, "learning_rate": 1e-3, "batch_size": 4, "max_length": 24, "seed": 1, "negatives": 2}


@pytest.fixture(scope="module")
def questions():
    return find_candidates(EXAMPLES, OverlapRetriever(CORPUS), CORPUS, depth=6)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("base") / "bert")


def test_wrong_passages_are_hard_and_hold_no_answer(questions):
    [first, *_] = questions
    assert [passage.id for passage in first.gold] == ["Orle-Bridge"]
    assert first.negatives(2) == [passage for passage in first.found if passage.id != "Orle-Bridge"][:2]
    answered = find_candidates([EXAMPLES[0].copy(answer="tower", aliases=["Tower"])], OverlapRetriever(CORPUS), CORPUS)
    assert all("Tower" not in passage.title for passage in answered[0].negatives(5))
    pairs = training_pairs(questions, 3)
    assert len(pairs) == 8 * 4
    assert [label for _, _, label in pairs[:4]] == [1.0, 0.0, 0.0, 0.0]
    assert len({text for _, text, _ in pairs[:4]}) == 4


def test_questions_without_known_gold_are_left_out_and_said():
    strangers = [EXAMPLES[0].copy(gold_ids=["nowhere"]), EXAMPLES[1]]
    with pytest.warns(UserWarning, match="1 of 2 questions have no known gold passages: left out"):
        assert len(find_candidates(strangers, OverlapRetriever(CORPUS), CORPUS)) == 1
    searched = OverlapRetriever(CORPUS)
    searched.search = lambda *_: pytest.fail("passages were searched")
    data = Dataset("own", {"train": EXAMPLES[:1], "test": [EXAMPLES[1].copy(gold_ids=["nowhere"])]}, CORPUS, "")
    with pytest.raises(UsageError, match="none of 1 questions names gold passages"):
        reranker(data, searched, "new")


def test_a_question_that_was_trained_on_is_not_unseen():
    louder = EXAMPLES[0].copy(question=EXAMPLES[0].question.upper() + "!")
    data = Dataset("own", {"train": EXAMPLES[:1], "test": [louder, EXAMPLES[1]]}, CORPUS, "")
    assert held_out_questions(data, "test", None) == [EXAMPLES[1]]
    assert held_out_questions(data, "none", None) == []


def test_orders_are_compared_by_hand_computed_scores(questions):
    gold_last = [[*[p for p in CORPUS if p not in q.gold][:6], *q.gold] for q in questions]
    values = score_orders(questions, {"worst": gold_last, "best": [q.gold for q in questions]})
    worst, best = compare_models(values).values()
    assert {name: mean.mean for name, mean in worst.means.items()} == {"recall@5": 0.0, "mrr": 1 / 7}
    assert (best.means["recall@5"].mean, best.means["mrr"].mean) == (1.0, 1.0)
    assert worst.comparison is None
    assert (best.comparison.difference, best.comparison.wins) == (1.0, 8)


def test_a_reranker_learns_to_tell_gold_passages(base, tmp_path: Path):
    pairs = [RankedQuestion(e, [CORPUS[2 * n]], CORPUS[2 * n : 2 * n + 2][::-1]) for n, e in enumerate(EXAMPLES)]
    config = RerankerConfig(epochs=30, learning_rate=1e-2, batch_size=8, max_length=24, negatives=1)
    fit(reranker_job(pairs[:6], tmp_path / "model", base=str(base), config=config))
    ranked = rerank(make_reranker(tmp_path / "model"), pairs)
    assert ranked == [[*pair.gold, pair.found[0]] for pair in pairs]


def test_the_embedded_base_has_learnt_to_find_answers():
    reranker = untrained_reranker("embedded")
    question = "Who designed the Orle Bridge?"
    texts = ["The Orle Bridge was designed by Marta Kell.", "The Orle Bridge is long.", "Marta Kell was born in Wick."]
    scores = reranker.score([(question, text) for text in texts])
    assert scores[0] > max(scores[1:])
