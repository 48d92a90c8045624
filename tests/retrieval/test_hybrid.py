import pytest

from knowgap.errors import ValueOutOfBounds
from knowgap.retrieval import BM25Index, DenseIndex, Hit, HybridIndex, HybridRetriever, Passage, open_index
from knowgap.retrieval.hybrid import SHARE, fuse
from tests.retrieval.conformance import (
    QUERIES,
    FilterConformance,
    IndexConformance,
    RetrieverConformance,
    UpdateConformance,
    corpus,
)


class TestHybridIndex(IndexConformance, UpdateConformance):
    index_class = HybridIndex

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def with_checkpoint(cls, checkpoint):
        cls.options = {"checkpoint": checkpoint}


class TestHybridRetriever(RetrieverConformance, FilterConformance):
    @classmethod
    def make(cls, passages, folder):
        return HybridRetriever([BM25Index.from_passages(passages), DenseIndex.build(passages, folder)], weights=[2, 1])

    test_ids_equal_post_filtering = None  # ranks, and so fused scores, are those among the admitted passages


def test_a_score_is_the_mean_cosine_and_the_share_of_rare_words(checkpoint, tmp_path):
    index = HybridIndex.build(corpus(), tmp_path / "index", checkpoint=checkpoint)
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
    index = HybridIndex.build([*codes, *corpus()], tmp_path / "index", dim=32)
    queries = [f"What does the error E{n}-{n * 37 % 91} of the {parts[n % 3]} mean?" for n in range(90)]
    assert [hits[0].passage for hits in index.search(queries, 1)] == codes


def test_words_of_another_language(checkpoint, tmp_path):
    index = HybridIndex.build(corpus(), tmp_path / "index", checkpoint=checkpoint, stemmer="german")
    assert open_index(index.path).search(QUERIES, 5) == index.search(QUERIES, 5)
    with pytest.raises(ValueOutOfBounds, match="klingon"):
        HybridIndex.build(corpus(), tmp_path / "other", checkpoint=checkpoint, stemmer="klingon")


def hits(*ids):
    return [Hit(Passage(name, "", ""), 1.0 / rank, rank) for rank, name in enumerate(ids, 1)]


def test_fusion_is_the_formula():
    fused = fuse([hits("a", "b", "c"), hits("c", "d")], 3, weights=[1.0, 2.0])
    assert [(hit.passage.id, hit.rank) for hit in fused] == [("c", 1), ("d", 2), ("a", 3)]
    assert [hit.score for hit in fused[:2]] == pytest.approx([1 / 63 + 2 / 61, 2 / 62])
    tied = fuse([hits("b", "a"), hits("a", "b")], 2, constant=10)
    assert [hit.passage.id for hit in tied] == ["a", "b"]
    assert [hit.score for hit in tied] == pytest.approx([1 / 11 + 1 / 12] * 2)


def test_a_part_of_weight_0_decides_nothing():
    lexical = BM25Index.from_passages(corpus())
    both = HybridRetriever([lexical, BM25Index.from_passages(corpus()[:3])], weights=[1, 0])
    ranked, expected = ([[hit.passage for hit in hits] for hits in r.search(QUERIES, 3)] for r in (both, lexical))
    assert ranked == expected


@pytest.mark.parametrize("weights", [[1], [-1, 1], [0, 0]])
def test_weights_out_of_bounds(weights):
    with pytest.raises(ValueOutOfBounds):
        HybridRetriever([BM25Index.from_passages(corpus())] * 2, weights=weights)
