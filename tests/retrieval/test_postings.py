import random

import numpy as np
import pytest

from knowgap.retrieval.postings import Postings, WeighedWords

VOCABULARY = [f"word{n}" for n in range(80)]


@pytest.fixture
def texts():
    rng = random.Random(5)
    weights = [1 / (rank + 1) for rank in range(len(VOCABULARY))]
    return [rng.choices(VOCABULARY, weights, k=rng.randint(0, 30)) for _ in range(200)]


@pytest.mark.parametrize("cuts", [[200], [1, 199], [0, 80, 90, 200]])
def test_segments_and_deletions_weigh_as_one_index_of_what_is_left(texts, cuts):
    parts = [Postings.count(part) for part in np.split(np.array(texts, dtype=object), cuts)]
    alive = np.ones(len(texts), dtype=bool)
    alive[::3] = False
    left = [text for text, kept in zip(texts, alive, strict=True) if kept]
    whole = WeighedWords([Postings.count(left)], np.ones(len(left), dtype=bool))
    segments = WeighedWords(parts, alive)
    for query in (["word0", "word5", "word5"], ["word79", "absent"], ["absent"], []):
        for find in ("scores", "shares"):
            scores = getattr(segments, find)(query)
            assert scores[alive].tolist() == getattr(whole, find)(query).tolist()
            assert not scores[~alive].any()


def test_a_share_is_of_the_squares_of_rarities(monkeypatch):
    monkeypatch.setattr("knowgap.retrieval.postings.K1", 0.0)  # repetitions and lengths do not count
    texts = [["common"]] * 8 + [["common", "rare"], ["rare"], []]
    words = WeighedWords([Postings.count(texts)], np.ones(len(texts), dtype=bool))
    common, rare = (np.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) ** 2 for n in (9, 2))
    expected = [common / (common + rare)] * 8 + [1, rare / (common + rare), 0]
    assert words.shares(["common", "rare", "absent"]) == pytest.approx(expected)
