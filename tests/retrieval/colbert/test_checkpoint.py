import json
import shutil

import numpy as np
import pytest

from knowgap.errors import CheckpointError
from knowgap.retrieval import ColBERTIndex
from knowgap.retrieval.colbert import TokenEncoder, fit_checkpoint, fit_projection
from tests.retrieval.conformance import QUERIES, corpus
from tests.retrieval.tiny import write_colbert, write_pylate

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
