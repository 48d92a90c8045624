import random

import numpy as np
import pytest

from knowgap.retrieval import postings
from knowgap.retrieval.postings import Postings

ARRAYS = ("words", "starts", "highest", "passages", "scores")


def documents(count: int) -> list[list[str]]:
    """Words as frequent as in a language, in passages of 0 to 30 of them; some passages come twice."""
    rng = random.Random(4)
    made = [[f"w{int(rng.paretovariate(0.6)) % 500}" for _ in range(rng.randrange(31))] for _ in range(count)]
    return made + made[: count // 5]


def build(folder, texts) -> Postings:
    folder.mkdir()
    Postings.build(texts, folder, k1=0.9, b=0.4, total=len(texts))
    return Postings(folder)


def test_portions_give_the_same_arrays_and_are_removed(tmp_path, monkeypatch):
    texts = documents(200)
    build(tmp_path / "whole", texts)
    monkeypatch.setattr(postings, "_WORDS_AT_ONCE", 150)
    monkeypatch.setattr(postings, "_POSTINGS_AT_ONCE", 90)
    build(tmp_path / "portions", texts)
    assert sorted(path.stem for path in (tmp_path / "portions").iterdir()) == sorted(ARRAYS)
    for name in ARRAYS:
        whole, portions = (np.load(tmp_path / kind / f"{name}.npy") for kind in ("whole", "portions"))
        assert whole.dtype == portions.dtype
        assert whole.tolist() == portions.tolist()


@pytest.mark.parametrize("k", [1, 3, 20, 500])
def test_nothing_that_is_among_the_best_is_passed_over(tmp_path, k):
    texts, rng = documents(300), random.Random(k)
    index = build(tmp_path / "index", texts)
    alone = {}
    for word in {word for text in texts for word in text}:
        found, scores = index.search([word], len(texts))
        alone[word] = dict(zip(found.tolist(), scores.tolist(), strict=True))
        assert sorted(alone[word]) == [i for i, text in enumerate(texts) if word in text]
    for _ in range(60):
        query = rng.choices([*alone, "unknown"], k=rng.randrange(1, 7))
        expected = {}
        for word in query:
            for position, score in alone.get(word, {}).items():
                expected[position] = expected.get(position, 0) + score
        for allowed in (None, np.arange(0, len(texts), 3)):
            wanted = {i: s for i, s in expected.items() if allowed is None or i % 3 == 0}
            last = sorted(wanted.values(), reverse=True)[:k][-1] if wanted else 0
            found, scores = index.search(query, k, allowed)
            given = dict(zip(found.tolist(), scores.tolist(), strict=True))
            assert len(given) == len(found)
            assert given == pytest.approx({i: wanted[i] for i in given}, rel=1e-5)
            assert {i for i, score in wanted.items() if score > last * 0.9999} <= set(given)


def test_equal_passages_have_equal_scores_and_all_of_them_are_found(tmp_path):
    index = build(tmp_path / "index", [["storm", "bay", "gull"], ["quiet", "bay"], *[["storm", "gull"]] * 50])
    found, scores = index.search(["gull", "storm", "bay"], 5)
    equal = scores[found >= 2]
    assert len(equal) == 50
    assert len(set(equal.tolist())) == 1
