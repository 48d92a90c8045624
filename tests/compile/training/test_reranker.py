"""Rerankers that are trained on what an index finds."""

from pathlib import Path

import numpy as np
import pytest
from support import OverlapRetriever

from knowgap.compiling.data.dataset import make_example
from knowgap.compiling.run import Run
from knowgap.compiling.training.config import Job, RerankerConfig
from knowgap.compiling.training.reranker import train_reranker, training_pairs
from knowgap.errors import UsageError
from knowgap.retrieval import make_reranker
from knowgap.retrieval.passage import Passage
from tests.tiny import write_bi_encoder

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
QUICK = RerankerConfig(negatives=2, depth=6)


def job_of(examples, config, output=Path(), base=""):
    return Job(examples, OverlapRetriever(CORPUS), CORPUS, output, base, config, Run())


def pairs_of(examples, **changes):
    return training_pairs(job_of(examples, QUICK.model_copy(update=changes)))


def test_wrong_passages_are_hard_and_hold_no_answer():
    [hits] = OverlapRetriever(CORPUS).search([EXAMPLES[0].question], 4)
    pairs = pairs_of(EXAMPLES, negatives=3)
    assert [label for _, _, label in pairs] == [1.0, 0.0, 0.0, 0.0] * 8
    assert [text for _, text, _ in pairs[:4]] == [str(hit.passage) for hit in hits]
    answered = pairs_of([EXAMPLES[0].copy(answer="tower", aliases=["Tower"])], negatives=5, depth=50)
    assert not [text for _, text, label in answered if "Tower" in text and not label]


def test_questions_without_known_gold_are_left_out_and_said():
    strangers = [EXAMPLES[0].copy(gold_ids=["nowhere"]), EXAMPLES[1]]
    with pytest.warns(UserWarning, match="1 of 2 questions"):
        assert pairs_of(strangers) == pairs_of(EXAMPLES[1:2])
    with pytest.raises(UsageError, match="none of 1 questions"):
        pairs_of(strangers[:1])


def test_a_reranker_learns_to_tell_gold_passages(tmp_path: Path):
    base = write_bi_encoder(tmp_path / "base", [*map(str, CORPUS), *(each.question for each in EXAMPLES)])
    config = RerankerConfig(epochs=30, learning_rate=1e-2, batch_size=8, max_length=24, negatives=1)
    train_reranker(job_of(EXAMPLES[:6], config, tmp_path / "model", str(base)))
    [gold, wrong] = (
        make_reranker(tmp_path / "model").score(
            [(e.question, f"{e.id} {what}: The {e.id} {what} is old.") for e in EXAMPLES]
        )
        for what in ("Bridge", "Tower")
    )
    assert all(np.greater(gold, wrong))
