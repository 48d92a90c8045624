import random

import numpy as np
import pytest

from knowgap.retrieval import Passage, PassageStore
from knowgap.retrieval.index.passage_store import scored_hits
from tests.retrieval.conformance import corpus

ODD = [
    Passage("", "empty id", "is an id, too"),
    Passage("é", "Ünïcödé", "ス 🦊 \u202e \x00"),
    Passage("lone", "\ud800", "surrogate"),
    Passage("nothing", "", ""),
]


@pytest.fixture
def store(tmp_path):
    return PassageStore.build([*corpus(), *ODD], tmp_path)[0]


def test_round_trip(store):
    assert list(store) == [*corpus(), *ODD]
    assert len(store) == len(corpus()) + len(ODD)
    for position, passage in enumerate(store):
        assert store.position(passage.id) == position
    assert store.position("absent") is None


def test_digest_depends_on_content_and_order(tmp_path):
    corpora = [corpus(), corpus()[::-1], [Passage("a", "b", "")], [Passage("a", "", "b")]]
    assert len({PassageStore.build(iter(passages), tmp_path)[1] for passages in [*corpora, corpus()]}) == len(corpora)


def test_ties_at_the_cut_are_ordered_by_id():
    passages = corpus()
    rng = random.Random(3)
    for _ in range(200):
        scores = np.array([rng.choice([0.5, 1.0, 1.5, -np.inf]) for _ in passages])
        k = rng.randint(1, 50)
        expected = sorted(
            ((-score, passage.id) for score, passage in zip(scores, passages, strict=True) if score > -np.inf)
        )[:k]
        positions = np.flatnonzero(scores > -np.inf)
        hits = scored_hits(passages, positions, scores[positions], k)
        assert [(-hit.score, hit.passage.id) for hit in hits] == expected
