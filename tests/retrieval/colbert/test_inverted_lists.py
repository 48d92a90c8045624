import os
import signal

import numpy as np
import pytest

from knowgap.errors import UnknownName, ValueOutOfBounds
from knowgap.retrieval import ColBERTIndex, SearchSettings, open_index
from knowgap.retrieval.colbert import inverted_lists
from knowgap.retrieval.colbert.inverted_lists import CentroidIndex
from knowgap.retrieval.colbert.maxsim import TokenVectors
from knowgap.retrieval.colbert.residual_codec import ResidualVectors
from tests.retrieval.conformance import QUERIES, IndexConformance, UpdateConformance, corpus

EVERYTHING = SearchSettings(nprobe=4, n_rescored=10_000)


class _Clustered(IndexConformance, UpdateConformance):
    index_class = ColBERTIndex
    clustering = {}  # noqa: RUF012  # read only

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def with_checkpoint(cls, checkpoint):
        cls.options = {"checkpoint": checkpoint, **cls.clustering}

    @classmethod
    def make(cls, passages, folder, **options):
        return ColBERTIndex.open(super().make(passages, folder, **options).path, quality=EVERYTHING)


class TestClusteredIndex(_Clustered):
    clustering = {"clustered": True}  # noqa: RUF012


class TestCompressedIndex(_Clustered):
    clustering = {"nbits": 4}  # noqa: RUF012


@pytest.fixture(scope="module")
def vectors():
    """2,000 passages of 3 to 12 vectors, scattered about 60 directions."""
    rng = np.random.default_rng(11)
    lengths = rng.integers(3, 13, size=2000)
    topics = rng.normal(size=(60, 32))
    rows = topics[rng.integers(0, 60, size=lengths.sum())] + 0.8 * rng.normal(size=(lengths.sum(), 32))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return TokenVectors(rows.astype(np.float16), lengths)


@pytest.fixture(scope="module")
def queries(vectors):
    rng = np.random.default_rng(12)
    starts = vectors.starts[rng.integers(0, len(vectors), size=30)]
    rows = [vectors.vectors[start : start + 8].astype(np.float32) for start in starts]
    noisy = [row + 0.1 * rng.normal(size=row.shape).astype(np.float32) for row in rows]
    return [row / np.linalg.norm(row, axis=1, keepdims=True) for row in noisy]


@pytest.fixture(scope="module")
def centroids(vectors, tmp_path_factory):
    return CentroidIndex.build(vectors, tmp_path_factory.mktemp("centroids"))


def test_candidates_hold_the_best(vectors, centroids, queries):
    for query, scores in zip(queries, vectors.scan(queries), strict=True):
        found = centroids.candidates(query, 4, 200)
        assert scores.argmax() in found
        # What else is missed hardly differs from what is found.
        assert np.sort(scores[found])[-10:].mean() > 0.97 * np.sort(scores)[-10:].mean()


def test_small_portions_give_the_same_files(vectors, centroids, tmp_path, monkeypatch):
    (tmp_path / "whole").mkdir()
    (tmp_path / "portions").mkdir()
    again = CentroidIndex.build(vectors, tmp_path / "whole")
    np.testing.assert_array_equal(again.centroids, centroids.centroids)  # of a build in another folder
    monkeypatch.setattr(inverted_lists, "_PAIRS_AT_ONCE", 700)
    CentroidIndex.build(vectors, tmp_path / "portions")
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "portions").iterdir())
    whole = {name: np.load(tmp_path / "whole" / name) for name in names}
    for name in names:
        assert np.array_equal(whole[name], np.load(tmp_path / "portions" / name))
    of_token = zip(whole["tokens.codes.npy"].tolist(), np.repeat(range(2000), vectors.lengths).tolist(), strict=True)
    pairs = sorted(set(of_token))
    centroid_of = np.repeat(range(len(centroids)), np.diff(whole["cells.starts.npy"])).tolist()
    assert list(zip(centroid_of, whole["cells.npy"].tolist(), strict=True)) == pairs
    passage_of = np.repeat(range(2000), np.diff(whole["codes.starts.npy"])).tolist()
    assert sorted(zip(whole["codes.npy"].tolist(), passage_of, strict=True)) == pairs


def test_limit_and_filters_of_candidates(vectors, centroids, queries):
    wide = centroids.candidates(queries[0], 4, 10_000)
    narrow = centroids.candidates(queries[0], 4, 50)
    assert len(narrow) == 50
    assert set(narrow) <= set(wide)
    exact = vectors.scan(queries[:1])[0]
    assert exact[narrow].mean() > exact[wide].mean()
    everything = centroids.candidates(queries[0], len(centroids), len(vectors))
    assert everything.tolist() == list(range(len(vectors)))
    sevenths = np.arange(0, 2000, 7)
    allowed = centroids.candidates(queries[0], 4, 10_000, sevenths)
    without = centroids.candidates(queries[0], 4, 10_000, without=sevenths)
    assert allowed.tolist() == [position for position in wide.tolist() if position % 7 == 0]
    assert without.tolist() == [position for position in wide.tolist() if position % 7]
    padded = np.concatenate([queries[0], 0.001 * queries[1]])  # vectors without weight choose nothing
    np.testing.assert_array_equal(centroids.candidates(padded, 4, 50), narrow)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(centroids):
    scores = np.random.default_rng(13).random((5, len(centroids)), dtype=np.float32)
    expected = centroids._interaction(scores, np.arange(2000))  # without torch, which cannot go on in a fork
    child = os.fork()
    if not child:
        signal.alarm(30)  # without threads it would wait for ever
        os._exit(7 if (centroids._interaction(scores, np.arange(2000)) == expected).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_residuals_restore_vectors_the_better_the_more_bits(vectors, tmp_path):
    centroids = CentroidIndex.build(vectors, tmp_path).centroids
    cosines = []
    for nbits in (1, 2, 4):
        ResidualVectors.build(vectors.vectors, centroids, nbits, tmp_path)
        restored = ResidualVectors.open(tmp_path, centroids, nbits)
        assert restored.shape == vectors.vectors.shape
        some = np.array([0, 5, 5, 900, len(restored) - 1])
        np.testing.assert_array_equal(restored[some], restored[:][some])
        cosines.append((restored[:].astype(float) * vectors.vectors.astype(float)).sum(axis=1).mean())
        assert (tmp_path / "tokens.residuals.npy").stat().st_size < 128 + len(restored) * 32 * nbits // 8 + 1
    assert 0.8 < cosines[0] < cosines[1] < cosines[2]
    assert cosines[2] > 0.99


@pytest.fixture(scope="module")
def clustered(checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("clustered") / "index"
    return ColBERTIndex.build(corpus(200), folder, checkpoint=checkpoint, clustered=True).path


def test_qualities(clustered):
    exact = open_index(clustered, quality="exact").search(QUERIES, 10)
    for quality in (EVERYTHING, SearchSettings(nprobe=5000, n_rescored=1)):  # more clusters than there are
        assert open_index(clustered, quality=quality).search(QUERIES, 10) == exact
    everything = open_index(clustered, quality="exact").search(QUERIES, 200)
    scores = [{hit.passage.id: hit.score for hit in hits} for hits in everything]
    for quality in ("fast", "balanced", SearchSettings(nprobe=1, n_rescored=12)):
        index = open_index(clustered, quality=quality)
        assert index.quality == quality
        for exactly, hits in zip(scores, index.search(QUERIES, 10), strict=True):
            assert len(hits) == 10
            # Which passages are found is a matter of chance here; however one was found, its score is the exact one.
            assert [hit.score for hit in hits] == [exactly[hit.passage.id] for hit in hits]


@pytest.mark.parametrize("quality", ["fast", SearchSettings(nprobe=1, n_rescored=1)])
def test_the_first_hits_are_the_same_however_many_are_asked_for(clustered, quality):
    index = open_index(clustered, quality=quality)
    few, many = index.search(QUERIES, 5), index.search(QUERIES, 50)
    assert few == [hits[:5] for hits in many]
    assert [len(hits) for hits in index.search(QUERIES, 120)] == [120] * len(QUERIES)


def test_settings_that_are_refused(clustered, checkpoint, tmp_path):
    with pytest.raises(UnknownName, match="unknown quality 'good'"):
        open_index(clustered, quality="good")
    with pytest.raises(ValueOutOfBounds, match="nprobe = 0"):
        SearchSettings(nprobe=0, n_rescored=1)
    with pytest.raises(ValueOutOfBounds, match="nbits = 3"):
        ColBERTIndex.build(corpus(), tmp_path / "other", checkpoint=checkpoint, nbits=3)


def test_a_filter_that_admits_many(clustered, monkeypatch):
    monkeypatch.setattr("knowgap.retrieval.index.snapshot._EXACT_FILTER", 5)
    ids = [passage.id for passage in corpus(200)[::2]]
    narrowed = open_index(clustered, quality=SearchSettings(nprobe=1, n_rescored=1)).search(QUERIES, 20, ids=ids)
    assert all(len(hits) == 20 and {hit.passage.id for hit in hits} <= set(ids) for hits in narrowed)
    everything, exact = (open_index(clustered, quality=quality) for quality in (EVERYTHING, "exact"))
    assert everything.search(QUERIES, 5, ids=ids) == exact.search(QUERIES, 5, ids=ids)
