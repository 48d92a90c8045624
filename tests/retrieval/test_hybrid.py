import pytest

from knowgap.errors import UsageError, ValueOutOfBounds
from knowgap.retrieval import BM25Index, DenseIndex, Hit, HybridIndex, HybridRetriever, Passage, open_index
from knowgap.retrieval.hybrid import RRF_CONSTANT, fuse
from tests.retrieval.conformance import QUERIES, FilterConformance, IndexConformance, RetrieverConformance, corpus


class TestHybridIndex(IndexConformance):
    index_class = HybridIndex
    options = {"parts": ["bm25", "dense"]}  # noqa: RUF012  # read only

    # Ranks, and so fused scores, are those among the admitted passages.
    test_ids_equal_post_filtering = None


class TestHybridRetriever(RetrieverConformance, FilterConformance):
    @classmethod
    def make(cls, passages, folder):
        return HybridRetriever([BM25Index.from_passages(passages), DenseIndex.build(passages, folder)], weights=[2, 1])

    test_ids_equal_post_filtering = None


def hits(*ids):
    return [Hit(Passage(name, "", ""), 1.0 / rank, rank) for rank, name in enumerate(ids, 1)]


def test_fusion_is_the_formula():
    fused = fuse([hits("a", "b", "c"), hits("c", "d")], 3, weights=[1.0, 2.0], constant=60)
    assert [(hit.passage.id, hit.rank) for hit in fused] == [("c", 1), ("d", 2), ("a", 3)]
    assert [hit.score for hit in fused[:2]] == pytest.approx([1 / 63 + 2 / 61, 2 / 62])
    tied = fuse([hits("b", "a"), hits("a", "b")], 2, weights=[1.0, 1.0])
    assert [hit.passage.id for hit in tied] == ["a", "b"]


def test_the_constant_that_measures_best_is_the_default_and_the_papers_can_be_had(tmp_path):
    one, other = hits("a", "b"), hits("c", "a")
    assert fuse([one, other], 1, weights=[1.0, 1.0])[0].score == pytest.approx(1 / 11 + 1 / 12)
    index = HybridIndex.build(corpus(), tmp_path / "index", parts=["bm25"], constant=RRF_CONSTANT)
    assert open_index(index.path).search(["cold northern sea"], 1)[0][0].score == pytest.approx(1 / 61)


def test_a_part_of_weight_0_decides_nothing():
    lexical = BM25Index.from_passages(corpus())
    both = HybridRetriever([lexical, BM25Index.from_passages(corpus()[:3])], weights=[1, 0])
    ranked, expected = ([[hit.passage for hit in hits] for hits in r.search(QUERIES, 3)] for r in (both, lexical))
    assert ranked == expected


def test_parts_with_arguments(tmp_path):
    built = HybridIndex.build(corpus(), tmp_path / "index", parts={"bm25": {"k1": 1.2}, "dense": {}}, weights=[1, 3])
    assert open_index(tmp_path / "index" / "bm25").manifest.settings["k1"] == 1.2
    assert open_index(tmp_path / "index").manifest.settings["weights"] == [1, 3]
    assert open_index(tmp_path / "index").search(QUERIES, 5) == built.search(QUERIES, 5)


@pytest.mark.parametrize(
    ("error", "options"),
    [
        *((UsageError, {"parts": parts}) for parts in (["bm25", "altavista"], ["hybrid"])),
        *((ValueOutOfBounds, {"weights": weights}) for weights in ([1], [-1, 1, 1], [0, 0, 0])),
        *((ValueOutOfBounds, options) for options in ({"parts": []}, {"depth": 0}, {"constant": -1})),
    ],
)
def test_settings_out_of_bounds(tmp_path, error, options):
    with pytest.raises(error):
        HybridIndex.build(corpus(), tmp_path / "index", **options)
    assert list(tmp_path.iterdir()) == []


def interrupt(path, passages, stage):
    def stop(done, total, what):
        if stage in what:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        HybridIndex.build(passages, path, parts=["bm25", "dense"], progress=stop)


def test_interrupted_build_keeps_its_finished_parts(tmp_path):
    interrupt(tmp_path / "index", corpus(), "encoding passages")
    before = (tmp_path / ".index.building" / "bm25" / "manifest.json").stat().st_mtime_ns
    index = HybridIndex.build(corpus(), tmp_path / "index", parts=["bm25", "dense"])
    assert (index.path / "bm25" / "manifest.json").stat().st_mtime_ns == before
    interrupt(tmp_path / "other", corpus(20), "")  # parts of another corpus are not kept
    index = HybridIndex.build(corpus(), tmp_path / "other", parts=["bm25", "dense"])
    assert len(open_index(index.path / "bm25")) == len(corpus())
    interrupt(tmp_path / "third", corpus(), "encoding passages")  # nor are parts that were built with other arguments
    index = HybridIndex.build(corpus(), tmp_path / "third", parts={"bm25": {"k1": 1.2}, "dense": {}})
    assert open_index(index.path / "bm25").manifest.settings["k1"] == 1.2


def test_the_quality_is_that_of_the_colbert_part(checkpoint, tmp_path):
    parts = {"bm25": {}, "colbert": {"checkpoint": checkpoint}}
    assert HybridIndex.build(corpus(), tmp_path / "index", parts=parts).quality == "balanced"
    assert open_index(tmp_path / "index", quality="fast").quality == "fast"
    words = HybridIndex.build(corpus(), tmp_path / "words", parts=["bm25"])
    assert words.quality is None
    with pytest.raises(UsageError, match="quality 'fast' applies only to a ColBERT index"):
        HybridIndex.open(words.path, quality="fast")
