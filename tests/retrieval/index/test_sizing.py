import pytest

from knowgap.errors import ValueOutOfBounds
from knowgap.retrieval import BM25Index, ColBERTIndex, HybridIndex
from knowgap.retrieval.index.sizing import PassageSize, estimate_sizes, measure_passages
from tests.retrieval.conformance import corpus

SAMPLE = PassageSize(passages=1000, tokens=100.0, words=50.0, text=600.0, dim=128, narrows=False)


def on_disk(folder):
    return sum(
        file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.suffix in (".bin", ".npy", ".f16")
    )


@pytest.mark.parametrize(("nbits", "name"), [(16, "16 bits"), (2, "2 bits")])
def test_estimates_are_near_what_is_built(checkpoint, tmp_path, nbits, name):
    built = ColBERTIndex.build(corpus(80), tmp_path / "index", checkpoint=checkpoint, nbits=nbits, clustered=True)
    sample = measure_passages(built.path)
    assert (sample.passages, sample.dim, sample.narrows) == (80, 32, False)
    assert sample.tokens == len(built.encoder.encode_passages(list(map(str, corpus(80))))[0]) / 80
    [row] = [row for row in estimate_sizes(sample, 80) if name in row.engine]
    assert row.vectors == round(80 * sample.tokens)
    assert row.disk == pytest.approx(on_disk(built.path), rel=0.25)
    BM25Index.build(corpus(80), tmp_path / "bm25")
    assert estimate_sizes(sample, 80)[0].engine == "bm25"
    assert estimate_sizes(sample, 80)[0].disk == pytest.approx(on_disk(tmp_path / "bm25"), rel=0.25)


def test_the_arithmetic_of_a_cluster():
    once, twice = estimate_sizes(SAMPLE, 1_000_000)[-2:]
    assert once.vectors == 100_000_000
    assert once.disk == 1.5 * (100_000_000 * 256 + 1_000_000 * 600 + 1_000_000 * 512)
    assert once.memory == 1.5 * 1_000_000 * 512
    assert (twice.disk, twice.memory) == (2 * once.disk, 2 * once.memory)


def test_the_embedded_checkpoint_is_narrower_for_many_passages():
    wide = PassageSize(passages=1000, tokens=100.0, words=50.0, text=600.0, dim=384, narrows=True)
    assert {row.engine.split(",")[1] for row in estimate_sizes(wide, 20_000)[2:]} == {" 384 wide"}
    assert {row.engine.split(",")[1] for row in estimate_sizes(wide, 20_001)[2:]} == {" 128 wide"}


def test_the_colbert_part_of_a_hybrid_index_is_measured(checkpoint, tmp_path):
    parts = {"bm25": {}, "colbert": {"checkpoint": checkpoint}}
    index = HybridIndex.build(corpus(), tmp_path / "index", parts=parts)
    assert measure_passages(index.path) == measure_passages(index.path / "colbert")


def test_an_index_without_token_vectors_is_enough_for_bm25(checkpoint, tmp_path):
    BM25Index.build(corpus(), tmp_path / "bm25")
    ColBERTIndex.build(corpus(), tmp_path / "colbert", checkpoint=checkpoint)
    words, tokens = (estimate_sizes(measure_passages(tmp_path / name), 10**6) for name in ("bm25", "colbert"))
    assert [row.engine.split(",")[0] for row in words] == ["bm25", "dense"]
    assert words == tokens[:2]
    with pytest.raises(ValueOutOfBounds, match="passages = 0"):
        estimate_sizes(SAMPLE, 0)


def test_the_memory_of_a_build_hardly_grows():
    small, large = (estimate_sizes(SAMPLE, count)[0] for count in (10**6, 21 * 10**6))
    assert large.build_memory - small.build_memory < 80 * 20 * 10**6
    assert large.build_disk == 21 * small.build_disk
    compressed = next(row for row in estimate_sizes(SAMPLE, 21 * 10**6) if "2 bits" in row.engine)
    assert compressed.build_memory < 5e9 < compressed.disk < compressed.build_disk
