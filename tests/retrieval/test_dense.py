import zlib

import numpy as np
import pytest

from knowgap.errors import CheckpointError, UsageError
from knowgap.retrieval import DenseIndex
from tests.retrieval.conformance import QUERIES, IndexConformance, corpus
from tests.retrieval.tiny import write_bi_encoder


def count_words(texts):
    """A function from texts to vectors: hashed word counts."""
    vectors = np.zeros((len(texts), 256))
    for row, text in enumerate(texts):
        for word in text.lower().replace(".", " ").replace("(", " ").replace(")", " ").replace(":", " ").split():
            vectors[row, zlib.crc32(word.encode("utf-8", "surrogatepass")) % 256] += 1
        vectors[row, 0] += 0.01
    return vectors


class TestEmbeddedDenseIndex(IndexConformance):
    index_class = DenseIndex


class TestSentenceTransformersIndex(IndexConformance):
    index_class = DenseIndex

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def with_encoder(cls, tmp_path_factory):
        texts = [*map(str, corpus()), *QUERIES]
        cls.encoder = write_bi_encoder(tmp_path_factory.mktemp("tiny") / "encoder", texts)

    @classmethod
    def make(cls, passages, folder, **options):
        return DenseIndex.build(passages, folder, encoder=cls.encoder, **options)


def test_scores_are_cosines(tmp_path):
    index = DenseIndex.build(corpus(), tmp_path / "index", encoder=count_words)
    (hits,) = index.search(QUERIES[:1], 40)
    query = count_words(QUERIES[:1])[0]
    for hit in hits:
        passage = count_words([str(hit.passage)])[0]
        cosine = query @ passage / np.linalg.norm(query) / np.linalg.norm(passage)
        assert hit.score == pytest.approx(cosine, abs=1e-3)


def test_an_embedder_of_dspy(tmp_path):
    import dspy

    embedder = dspy.Embedder(count_words)
    expected = DenseIndex.build(corpus(), tmp_path / "function", encoder=count_words).search(QUERIES, 5)
    assert DenseIndex.build(corpus(), tmp_path / "embedder", encoder=embedder).search(QUERIES, 5) == expected


def test_a_function_is_given_again_at_opening(tmp_path):
    expected = DenseIndex.build(corpus(), tmp_path / "index", encoder=count_words).search(QUERIES, 5)
    assert DenseIndex.open(tmp_path / "index", encoder=count_words).search(QUERIES, 5) == expected
    with pytest.raises(CheckpointError, match="encoded by the function count_words; open it with encoder="):
        DenseIndex.open(tmp_path / "index").search(QUERIES, 5)
    with pytest.raises(CheckpointError, match="not the encoder of"):
        DenseIndex.open(tmp_path / "index", encoder=lambda texts: -count_words(texts)).search(QUERIES, 5)


def test_a_function_that_gives_no_vectors(tmp_path):
    with pytest.raises(UsageError, match="one vector for each"):
        DenseIndex.build(corpus(), tmp_path / "index", encoder=lambda texts: [0.5])


def test_an_encoder_that_is_not_there(tmp_path):
    with pytest.raises(CheckpointError, match="no such checkpoint folder"):
        DenseIndex.build(corpus(), tmp_path / "index", encoder=tmp_path / "absent")


def test_interrupted_build_continues(tmp_path, monkeypatch):
    monkeypatch.setattr("knowgap.retrieval.index.encoding._CHUNK", 10)
    calls = []

    def embed(texts):
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(len(texts))
        return count_words(texts)

    with pytest.raises(KeyboardInterrupt):
        DenseIndex.build(corpus(), tmp_path / "index", encoder=embed)
    calls.clear()
    seen = []

    def again(texts):
        seen.extend(texts)
        return count_words(texts)

    again.__name__ = "embed"
    index = DenseIndex.build(corpus(), tmp_path / "index", encoder=again)
    assert str(corpus()[0]) not in seen
    assert str(corpus()[-1]) in seen
    assert index.search(QUERIES, 5) == DenseIndex.build(corpus(), tmp_path / "whole", encoder=again).search(QUERIES, 5)
