"""ColBERT: its checkpoints, the nearest passages among segments, and its index."""

import json
import os
import shutil
import signal
from itertools import pairwise

import numpy as np
import pytest

from knowgap.errors import CheckpointError
from knowgap.retrieval import ColBERTIndex
from knowgap.retrieval.colbert import TokenEncoder, fit_checkpoint, fit_projection
from knowgap.retrieval.index import vectors
from knowgap.retrieval.index.vectors import Vectors, fixed_point, maxsim, nearest
from tests.retrieval.conformance import QUERIES, corpus
from tests.tiny import write_colbert, write_pylate

TEXTS = [*map(str, corpus()), *QUERIES]


@pytest.fixture(scope="module", params=[write_colbert, write_pylate])
def saved(request, tmp_path_factory):
    """A checkpoint as colbert-ai or PyLate saves it."""
    return request.param(tmp_path_factory.mktemp("saved") / "checkpoint", TEXTS)


def test_vectors_are_those_of_sentence_transformers(saved, tmp_path):
    from sentence_transformers import MultiVectorEncoder

    encoder, expected = TokenEncoder(saved), MultiVectorEncoder(str(saved), device="cpu")
    vectors, lengths = encoder.encode_passages(TEXTS[:4])
    wanted = [np.asarray(each) for each in expected.encode_document(TEXTS[:4])]
    assert [*lengths] == [len(each) for each in wanted]
    np.testing.assert_allclose(vectors, np.concatenate(wanted), atol=1e-5)
    query = encoder.encode_query(QUERIES[0])
    assert len(query) == 32  # filled up with [MASK]
    np.testing.assert_allclose(query, np.asarray(expected.encode_query(QUERIES[0])), atol=1e-5)
    assert 32 < len(encoder.encode_query("the river rises in the hills " * 8)) < 256
    assert len(encoder.encode_query("the river rises in the hills " * 100)) == 256
    assert ColBERTIndex.window_of(saved).size == encoder.window.size
    index = ColBERTIndex.build(corpus(12), tmp_path / "index", encoder=saved)
    assert index.search([str(corpus(12)[5])], 1)[0][0].passage == corpus(12)[5]
    assert ColBERTIndex.open(tmp_path / "index").search(QUERIES, 3) == index.search(QUERIES, 3)


def test_what_the_embedded_checkpoint_encodes(tmp_path):
    fit_checkpoint(corpus(), tmp_path / "mine", dim=128)
    encoder = TokenEncoder(tmp_path / "mine")
    assert encoder.encode_passages(TEXTS[:4])[0].shape[1] == encoder.dim == 128
    assert len(encoder.encode_query("the river rises in the hills " * 100)) == 256
    plain, pointed = encoder.encode_passages(["a river", "a, river."])[1]
    assert plain == pointed  # punctuation has no vectors
    begin, *words = np.linalg.norm(encoder.encode_query("the Dellow"), axis=1)[[0, 2, 3]]
    assert begin == pytest.approx(1)
    assert words[0] < words[1]  # a word that is in many passages counts for less


@pytest.mark.parametrize(
    ("write", "name", "change", "message"),
    [
        (write_colbert, "artifact.metadata", None, "not a ColBERT checkpoint"),
        (write_colbert, "config.json", None, "not a ColBERT checkpoint"),
        (write_colbert, "config.json", {"architectures": ["BertModel"]}, "would be random"),
        (write_colbert, "model.safetensors", None, "cannot be loaded"),
        (write_pylate, "modules.json", [{"idx": 0, "name": "0", "path": "", "type": "own.Own"}], "cannot be loaded"),
        (write_pylate, "config_sentence_transformers.json", {"document_length": None}, "not a ColBERT checkpoint"),
    ],
)
def test_folders_that_are_no_checkpoints(tmp_path, write, name, change, message):
    mine = write(tmp_path / "mine", TEXTS)
    if change is None:
        (mine / name).unlink()
    else:
        record = json.loads((mine / name).read_text(encoding="utf-8"))
        (mine / name).write_text(json.dumps(change if isinstance(change, list) else record | change), encoding="utf-8")
    with pytest.raises(CheckpointError, match=message):
        ColBERTIndex.build(corpus(4), tmp_path / "index", encoder=mine)


def test_damaged_weights_of_the_embedded_checkpoint(checkpoint, tmp_path):
    mine = shutil.copytree(checkpoint, tmp_path / "mine")
    (mine / "projection.npy").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        TokenEncoder(mine)


def test_a_projection_keeps_the_strongest_directions_damps_them_and_is_hardly_moved_by_noise():
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(500, 12)) * np.array([9, 7, 5] + [0.1] * 9)
    narrow, matrix = fit_projection(vectors, 3), fit_projection(vectors, 12)
    assert (narrow[:, :3] ** 2).sum() > 0.99 * (narrow**2).sum()
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-6)
    values, directions = np.linalg.eigh(vectors.T @ vectors)
    damped = vectors @ directions * (values / values[-1]) ** -0.25
    for kept, projected in ((damped, vectors @ matrix.T), (damped[:, -3:], vectors @ narrow.T)):
        np.testing.assert_allclose(projected @ projected.T, kept @ kept.T, rtol=1e-4, atol=1e-3)
    noisy = fit_projection(vectors * (1 + 1e-7 * rng.normal(size=vectors.shape)), 12)
    np.testing.assert_allclose(noisy, matrix, rtol=1e-4, atol=1e-5)


# The index.


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
    mine = write_colbert(tmp_path / "checkpoint", TEXTS, dim=32)
    with pytest.raises(ZeroDivisionError):
        ColBERTIndex.build(corpus(), tmp_path / "index", encoder=mine, progress=stop_at_first_chunk)
    for name in ("tokens.i16", "lengths.i32"):
        with (tmp_path / ".index.building" / "segment-0" / name).open("ab") as file:
            file.write(b"cut")  # off in the middle of a number
    write_colbert(mine, TEXTS, dim=32, seed=seed)
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
    write_colbert(mine, TEXTS, seed=2)
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
        other = write_colbert(tmp_path / f"other {dim}", TEXTS, dim=dim, seed=seed)
        again = ColBERTIndex.build(corpus(), tmp_path / "index", encoder=other, overwrite=True)
        assert reader.refresh().search(QUERIES, 5) == again.search(QUERIES, 5)
