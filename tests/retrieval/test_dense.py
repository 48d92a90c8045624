import re
import zlib

import dspy
import numpy as np
import pytest

from knowgap.errors import CheckpointError, UsageError
from knowgap.retrieval import DenseIndex, Passage, open_index
from tests.retrieval.conformance import QUERIES, IndexConformance, UpdateConformance, corpus
from tests.retrieval.tiny import write_bi_encoder


def count_words(texts):
    """A function from texts to vectors: hashed word counts."""
    vectors = np.zeros((len(texts), 256))
    for row, text in enumerate(texts):
        for word in re.findall(r"[^\s.():]+", text.lower()):
            vectors[row, zlib.crc32(word.encode("utf-8", "surrogatepass")) % 256] += 1
        vectors[row, 0] += 0.01
    return vectors


class TestEmbeddedDenseIndex(IndexConformance, UpdateConformance):
    index_class = DenseIndex


def test_a_bi_encoder_of_sentence_transformers_encodes(tmp_path):
    encoder = write_bi_encoder(tmp_path / "encoder", [*map(str, corpus()), *QUERIES])
    index = DenseIndex.build(corpus(), tmp_path / "index", encoder=encoder)
    assert [hits[0].passage for hits in index.search([*map(str, corpus()[::7])], 1)] == corpus()[::7]
    assert open_index(tmp_path / "index").search(QUERIES, 5) == index.search(QUERIES, 5)
    with pytest.warns(UserWarning, match="longer than the"):
        index.add([Passage("long", "", "the cold northern sea " * 200)])


def test_scores_are_cosines(tmp_path):
    index = DenseIndex.build(corpus(), tmp_path / "index", encoder=count_words)
    (hits,) = index.search(QUERIES[:1], 40)
    vectors = count_words([QUERIES[0], *(str(hit.passage) for hit in hits)])
    query, *passages = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert [hit.score for hit in hits] == pytest.approx([query @ passage for passage in passages], abs=1e-3)


def test_a_function_is_given_again_at_opening(tmp_path):
    expected = DenseIndex.build(corpus(), tmp_path / "index", encoder=count_words).search(QUERIES, 5)
    assert DenseIndex.open(tmp_path / "index", encoder=count_words).search(QUERIES, 5) == expected
    embedder = dspy.Embedder(count_words)
    assert DenseIndex.build(corpus(), tmp_path / "embedder", encoder=embedder).search(QUERIES, 5) == expected
    with pytest.raises(CheckpointError, match="count_words"):
        DenseIndex.open(tmp_path / "index").search(QUERIES, 5)
    for other in (lambda texts: -count_words(texts), lambda texts: count_words(texts)[:, :9]):
        with pytest.raises(CheckpointError, match="not the encoder of"):
            DenseIndex.open(tmp_path / "index", encoder=other).search(QUERIES, 5)


def test_encoders_that_cannot_be_used(tmp_path):
    with pytest.raises(UsageError, match="one vector for each"):
        DenseIndex.build(corpus(), tmp_path / "index", encoder=lambda texts: [0.5])
    with pytest.raises(CheckpointError, match="no such folder"):
        DenseIndex.build(corpus(), tmp_path / "index", encoder=tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="empty: cannot be loaded"):
        DenseIndex.build(corpus(), tmp_path / "index", encoder=tmp_path / "empty")
