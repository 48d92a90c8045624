import os
import shutil
import signal
from itertools import pairwise

import numpy as np
import pytest

from knowgap.errors import CheckpointError
from knowgap.retrieval import ColBERTIndex
from knowgap.retrieval.colbert import fit_projection
from knowgap.retrieval.index import vectors
from knowgap.retrieval.index.vectors import Vectors, fixed_point, maxsim, nearest
from tests.retrieval.conformance import QUERIES, corpus
from tests.retrieval.tiny import write_colbert


@pytest.fixture
def scattered():
    """2,000 passages of 3 to 12 vectors about 60 directions, in three segments; and queries like some of them."""
    rng = np.random.default_rng(11)
    lengths = rng.integers(3, 13, size=2000)
    topics = rng.normal(size=(60, 32))
    rows = topics[rng.integers(0, 60, size=lengths.sum())] + 0.8 * rng.normal(size=(lengths.sum(), 32))
    stored = fixed_point(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    rows = stored / 32767
    starts = np.cumsum(lengths) - lengths
    queries = [rows[starts[n] : starts[n] + 3].astype(np.float32) for n in range(0, 2000, 70)]
    cuts = [0, 1300, 1302, 2000]
    parts = [Vectors(stored[starts[a] : starts[b - 1] + lengths[b - 1]], lengths[a:b]) for a, b in pairwise(cuts)]
    passages = [part.T.astype(float) for part in np.split(rows, starts[1:])]
    exact = np.array([[(query.astype(float) @ part).max(1).sum() for part in passages] for query in queries])
    return parts, queries, exact


def test_the_nearest_have_their_exact_scores(scattered, monkeypatch):
    parts, queries, exact = scattered
    monkeypatch.setattr(vectors, "_LEAST", 500)  # many, since random passages are hard to find
    found = 0
    for query, expected in zip(queries, exact, strict=True):
        positions, scores = nearest(parts, query, 10, np.arange(2000))
        np.testing.assert_allclose(scores, expected[positions], atol=1e-6)
        found += len(set(np.argsort(-expected)[:10]) & set(positions)) / 10
        some = np.arange(3, 2000, 5)
        positions, scores = nearest(parts, query, 10, some)  # all of these are candidates
        assert set(some[np.argsort(-expected[some])[:10]]) <= set(positions) <= set(some)
        np.testing.assert_allclose(scores, expected[positions], atol=1e-6)
    assert found / len(queries) > 0.8


def test_a_bonus_makes_candidates_and_counts(scattered, monkeypatch):
    parts, queries, exact = scattered
    monkeypatch.setattr(vectors, "_LEAST", 1)
    bonus = np.zeros(2000, dtype=np.float32)
    last = int(np.argsort(exact[0])[0])  # the means would never choose it
    bonus[[last, 5]] = 9, 0.5
    positions, scores = nearest(parts, queries[0], 1, np.arange(2000), bonus)
    assert positions.tolist() == [last]
    np.testing.assert_allclose(scores, exact[0][positions] + 9, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(scattered):
    [part, *_], [query, *_], _ = scattered
    expected = maxsim([part], query, np.arange(1300), np.float64)
    child = os.fork()
    if not child:
        signal.alarm(30)  # without threads it would wait for ever
        os._exit(7 if (maxsim([part], query, np.arange(1300), np.float64) == expected).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def stop_at_first_chunk(done, total, what):
    if done and what == "encoding passages":
        raise ZeroDivisionError


@pytest.mark.parametrize(("passages", "seed", "first"), [(corpus(), 1, 8), (corpus()[::-1], 1, 0), (corpus(), 2, 0)])
def test_a_killed_build_goes_on_unless_it_is_another(tmp_path, monkeypatch, passages, seed, first):
    monkeypatch.setattr("knowgap.retrieval.index.folder_index._ENCODED_AT_ONCE", 8)
    texts = [*map(str, corpus()), *QUERIES]
    mine = write_colbert(tmp_path / "checkpoint", texts, dim=32)
    with pytest.raises(ZeroDivisionError):
        ColBERTIndex.build(corpus(), tmp_path / "index", encoder=mine, progress=stop_at_first_chunk)
    for name in ("tokens.i16", "lengths.i32"):
        with (tmp_path / ".index.building" / "segment-0" / name).open("ab") as file:
            file.write(b"cut")  # off in the middle of a number
    write_colbert(mine, texts, dim=32, seed=seed)
    seen = []
    options = {"encoder": mine, "progress": lambda done, total, what: seen.append(done)}
    continued, fresh = (ColBERTIndex.build(passages, tmp_path / name, **options) for name in ("index", "fresh"))
    assert seen[0] == first
    assert continued.manifest.files == fresh.manifest.files


def test_checkpoints_that_have_changed_or_moved(tmp_path, checkpoint):
    mine = shutil.copytree(checkpoint, tmp_path / "checkpoint")
    expected = ColBERTIndex.build(corpus(8), tmp_path / "index", encoder=mine).search(QUERIES, 3)
    shutil.move(mine, tmp_path / "moved")
    with pytest.raises(CheckpointError, match="not a folder"):
        ColBERTIndex.open(tmp_path / "index").search(QUERIES, 1)
    assert ColBERTIndex.open(tmp_path / "index", encoder=tmp_path / "moved").search(QUERIES, 3) == expected
    write_colbert(mine, [str(passage) for passage in corpus()], seed=2)
    with pytest.raises(CheckpointError, match="not the encoder"):
        ColBERTIndex.open(tmp_path / "index").search(QUERIES, 1)


# The embedded checkpoint.


def test_the_embedded_checkpoint_retrieves_and_is_narrow_where_there_is_much(tmp_path, monkeypatch):
    embedded = ColBERTIndex.build(corpus(), tmp_path / "index")
    river, band = embedded.search(
        ["Through which valley does the stream Aldrena run?", "Two siblings who make music"], 4
    )
    assert river[0].passage.title == "Aldrena (river)"
    assert all(hit.passage.title.endswith("(band)") for hit in band)
    assert embedded.manifest.settings["dim"] == 384
    monkeypatch.setattr("knowgap.retrieval.colbert.FULL_WIDTH", 7)
    assert ColBERTIndex.build(corpus(8), tmp_path / "large").manifest.settings["dim"] == 128


def test_an_index_is_known_again_from_a_machine_that_rounds_otherwise(tmp_path, monkeypatch):
    here = ColBERTIndex.build(corpus(8), tmp_path / "here")
    fitted = fit_projection
    monkeypatch.setattr(f"{fitted.__module__}.fit_projection", lambda *given: fitted(*given) * np.float32(1.0001))
    elsewhere = ColBERTIndex.build(corpus(8), tmp_path / "elsewhere")
    assert elsewhere.manifest.files != here.manifest.files
    assert elsewhere.digest == here.digest != ColBERTIndex.build(corpus(9), tmp_path / "other").digest
    assert ColBERTIndex.build(corpus(8), tmp_path / "here").manifest == here.manifest  # nothing is written again


def test_a_reader_of_an_index_that_is_built_again_takes_its_new_encoder(checkpoint, tmp_path):
    ColBERTIndex.build(corpus(), tmp_path / "index", encoder=checkpoint)
    reader = ColBERTIndex.open(tmp_path / "index")
    reader.search(QUERIES, 5)
    for dim, seed in ((32, 2), (16, 1)):
        other = write_colbert(tmp_path / f"other {dim}", [*map(str, corpus()), *QUERIES], dim=dim, seed=seed)
        again = ColBERTIndex.build(corpus(), tmp_path / "index", encoder=other, overwrite=True)
        assert reader.refresh().search(QUERIES, 5) == again.search(QUERIES, 5)
