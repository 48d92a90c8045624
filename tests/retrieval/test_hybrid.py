import pytest

from knowgap.retrieval import Hit, HybridIndex, Passage, open_index
from knowgap.retrieval.indexes import SHARE
from knowgap.retrieval.passage import fuse
from tests.retrieval.conformance import QUERIES, IndexConformance, UpdateConformance, corpus


class TestHybridIndex(IndexConformance, UpdateConformance):
    index_class = HybridIndex

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def with_checkpoint(cls, checkpoint):
        cls.options = {"encoder": checkpoint}


def test_a_score_is_the_mean_cosine_and_the_share_of_rare_words(checkpoint, tmp_path):
    index = HybridIndex.build(corpus(), tmp_path / "index", encoder=checkpoint)
    query = index.encoder.encode_query(QUERIES[0])
    words = {"film", "dellow", "direct"}
    for hit in index.search(QUERIES[:1], 40)[0]:
        vectors, _ = index.encoder.encode_passages([str(hit.passage)])
        cosine = (query @ vectors.astype(float).T).max(axis=1).sum() / len(query)
        has = any(word in str(hit.passage).lower() for word in words)
        assert cosine - 0.01 < hit.score < cosine + has * SHARE + 0.01


def test_a_word_that_one_passage_has_comes_first(tmp_path):
    parts = ("pump", "fan", "valve")
    codes = [Passage(str(n), "Errors", f"Error E{n}-{n * 37 % 91}: {parts[n % 3]} {n}") for n in range(90)]
    index = HybridIndex.build([*codes, *corpus()], tmp_path / "index")
    queries = [f"What does the error E{n}-{n * 37 % 91} of the {parts[n % 3]} mean?" for n in range(90)]
    assert [hits[0].passage for hits in index.search(queries, 1)] == codes


def test_words_of_another_language(checkpoint, tmp_path):
    index = HybridIndex.build(corpus(), tmp_path / "index", encoder=checkpoint, stemmer="german")
    assert open_index(index.path).search(QUERIES, 5) == index.search(QUERIES, 5)


def hits(*ids):
    return [Hit(Passage(name, "", ""), 1.0 / rank, rank) for rank, name in enumerate(ids, 1)]


def test_fusion_is_the_formula():
    fused = fuse([hits("a", "b", "c"), hits("c", "d"), hits("c")], 3)
    assert [(hit.passage.id, hit.rank) for hit in fused] == [("c", 1), ("a", 2), ("b", 3)]
    assert [hit.score for hit in fused] == pytest.approx([1 / 63 + 2 / 61, 1 / 61, 1 / 62])
    tied = fuse([hits("b", "a"), hits("a", "b")], 2)
    assert [hit.passage.id for hit in tied] == ["a", "b"]
