import copy

import numpy as np
import pytest

from knowgap.errors import CheckpointError
from knowgap.retrieval import CrossEncoderReranker, Reranker, make_reranker
from tests.retrieval.conformance import QUERIES, corpus
from tests.retrieval.tiny import logits_of, write_cross_encoder

TEXTS = [str(passage) for passage in corpus(12)]
PAIRS = [(query, text) for query in QUERIES for text in TEXTS]


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory):
    return write_cross_encoder(tmp_path_factory.mktemp("models") / "cross", TEXTS + QUERIES)


@pytest.fixture(params=["cross-encoder", "embedded"])
def make(request):
    """Makes a reranker that has scored nothing yet."""
    name = "embedded" if request.param == "embedded" else request.getfixturevalue("cross_encoder")
    return lambda: make_reranker(name)


class TestEveryReranker:
    def test_scores_do_not_depend_on_order_batch_or_repetition(self, make):
        scores = make().score(PAIRS)
        assert len(scores) == len(PAIRS)
        assert all(isinstance(score, float) for score in scores)
        some = [*PAIRS[::-7], PAIRS[0]]
        assert make().score(some) == pytest.approx([scores[PAIRS.index(pair)] for pair in some], abs=2e-3)

    def test_says_what_it_is_and_scores_blank_texts(self, make):
        reranker = make()
        assert reranker.score([]) == []
        assert len(reranker.score([("", ""), (" ", "text"), ("query", " ")])) == 3
        assert isinstance(reranker, Reranker)
        assert copy.deepcopy(reranker) is reranker


def test_cross_encoder_scores_are_the_logits_of_the_model(cross_encoder):
    expected = logits_of(cross_encoder, PAIRS[:15])[:, 0].tolist()
    assert CrossEncoderReranker(cross_encoder).score(PAIRS[:15]) == pytest.approx(expected, abs=1e-4)
    assert len(set(np.round(expected, 3))) > 5


def test_default_thresholds(cross_encoder, tmp_path):
    assert CrossEncoderReranker(cross_encoder).default_threshold is None
    assert CrossEncoderReranker(cross_encoder, default_threshold=1.5).default_threshold == 1.5
    bge = write_cross_encoder(tmp_path / "bge-reranker-base", TEXTS)
    assert CrossEncoderReranker(bge).default_threshold == 3.0


def test_refuses_what_is_no_reranker(tmp_path):
    three_labels = write_cross_encoder(tmp_path / "nli", TEXTS, labels=3)
    with pytest.raises(CheckpointError, match="gives 3 scores"):
        CrossEncoderReranker(three_labels)
