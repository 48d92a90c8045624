import json
import shutil

import numpy as np
import pytest
import torch

from knowgap.errors import CheckpointError, ValueOutOfBounds
from knowgap.retrieval import ColBERTIndex
from knowgap.retrieval.bert import Bert
from knowgap.retrieval.colbert.checkpoint import (
    checkpoint_digest,
    fit_projection,
    resolve_checkpoint,
    write_embedded_checkpoint,
)
from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.colbert.stock_runtime import colbert
from tests.retrieval.conformance import QUERIES, corpus

TEXTS = [*map(str, corpus()), *QUERIES]


@pytest.fixture(scope="module")
def encoder(checkpoint):
    return TokenEncoder(checkpoint)


def test_loading_a_checkpoint_draws_no_random_weights(checkpoint):
    before = torch.get_rng_state()
    Bert.load(checkpoint, "bert.")
    assert torch.equal(torch.get_rng_state(), before)


def test_short_queries_are_filled_up_with_masks_that_the_checkpoint_knows(encoder, tmp_path):
    colbert()
    from colbert.infra.config import ColBERTConfig
    from colbert.modeling.colbert import ColBERT
    from colbert.modeling.tokenization import QueryTokenizer

    folder = str(encoder.folder)
    config = ColBERTConfig.load_from_checkpoint(folder)
    ids, mask = QueryTokenizer(config, verbose=0).tensorize([QUERIES[0]])
    expected = ColBERT(folder, config).query(ids, mask)[0].detach().numpy()
    assert expected.shape == (32, 32)
    np.testing.assert_allclose(encoder.encode_query(QUERIES[0]), expected, atol=1e-5)
    mine = shutil.copytree(folder, tmp_path / "mine")
    (mine / "knowgap.json").write_text(json.dumps({"query_expansion": False}), encoding="utf-8")
    plain = TokenEncoder(mine).encode_query(QUERIES[0])
    assert 5 < len(plain) < 32
    np.testing.assert_allclose(plain, expected[: len(plain)], atol=1e-5)  # nothing attends to a [MASK]


def test_long_queries_keep_their_words(encoder):
    assert 32 < len(encoder.encode_query("the river rises in the hills " * 8)) < 256
    assert len(encoder.encode_query("the river rises in the hills " * 100)) == 256


def test_vectors_are_unit_vectors_of_passages_in_order(encoder):
    vectors, lengths = encoder.encode_passages(TEXTS)
    assert (len(lengths), lengths.sum()) == (len(TEXTS), len(vectors))
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(float), axis=1), 1, atol=2e-3)
    start = lengths[:7].sum()
    alone, _ = encoder.encode_passages([TEXTS[7]])
    np.testing.assert_allclose(vectors[start : start + lengths[7]], alone, atol=2e-2)
    plain, pointed = encoder.encode_passages(["a river", "a, river."])[1]
    assert plain == pointed  # punctuation has no vectors


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("artifact.metadata", None, r"no artifact\.metadata"),
        ("config.json", None, r"no config\.json"),
        ("config.json", {"auto_map": {"AutoModel": "evil.Model"}}, "asks to run code"),
        ("artifact.metadata", {"similarity": "l2"}, "trained for the similarity 'l2'"),
        ("artifact.metadata", {"dim": 24}, "cannot be loaded"),
        ("model.safetensors", None, "cannot be loaded"),
    ],
)
def test_folders_that_are_no_checkpoints(checkpoint, tmp_path, name, change, message):
    mine = shutil.copytree(checkpoint, tmp_path / "mine")
    if change is None:
        (mine / name).unlink()
    else:
        record = json.loads((mine / name).read_text(encoding="utf-8"))
        (mine / name).write_text(json.dumps(record | change), encoding="utf-8")
    with pytest.raises(CheckpointError, match=message):
        ColBERTIndex.build(corpus(4), tmp_path / "index", checkpoint=mine)


def test_names(checkpoint, tmp_path, monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    assert resolve_checkpoint(checkpoint) == checkpoint
    with pytest.raises(CheckpointError, match="no such checkpoint folder"):
        resolve_checkpoint(tmp_path / "absent")
    asked = []

    def download(name, allow_patterns, local_files_only=False):
        assert not local_files_only
        asked.append((name, "*.bin" in allow_patterns))
        if name == "lab/gone":
            raise LocalEntryNotFoundError("offline")
        return str(checkpoint if name == "lab/safe" else tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert resolve_checkpoint("lab/safe") == checkpoint
    assert resolve_checkpoint("lab/old") == tmp_path
    with pytest.raises(CheckpointError, match="lab/gone: not a folder, and cannot be fetched from the hub"):
        resolve_checkpoint("lab/gone")
    assert asked == [("lab/safe", False), ("lab/old", False), ("lab/old", True), ("lab/gone", False)]


def test_digest_is_that_of_names_and_contents(checkpoint, tmp_path):
    mine = shutil.copytree(checkpoint, tmp_path / "mine")
    (mine / "readme.md").write_text("not a part of it", encoding="utf-8")
    assert checkpoint_digest(mine) == checkpoint_digest(checkpoint)
    (mine / "vocab.txt").write_text("another", encoding="utf-8")
    assert checkpoint_digest(mine) != checkpoint_digest(checkpoint)


def test_projection_keeps_the_strongest_directions():
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(500, 12)) * np.array([9, 7, 5] + [0.1] * 9)
    matrix = fit_projection(vectors, 3)
    assert matrix.shape == (3, 12)
    energy = (matrix**2).sum(axis=0)
    assert energy[:3].sum() > 0.99 * energy.sum()
    lengths = np.linalg.norm(matrix, axis=1)
    # Each direction is scaled by its eigenvalue to the power -1/4: the strongest least.
    np.testing.assert_allclose(lengths / lengths[0], [1, (9 / 7) ** 0.5, (9 / 5) ** 0.5], rtol=0.1)
    np.testing.assert_array_equal(fit_projection(vectors, 3), matrix)


def test_a_projection_of_full_width_gives_the_cosines_of_the_principal_directions_and_is_hardly_moved_by_noise():
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(500, 12)) * np.array([9, 7, 5] + [0.1] * 9)
    matrix = fit_projection(vectors, 12)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-6)
    values, directions = np.linalg.eigh(vectors.T @ vectors)
    damped = vectors @ directions * (values / values[-1]) ** -0.25
    np.testing.assert_allclose((vectors @ matrix.T) @ (vectors @ matrix.T).T, damped @ damped.T, rtol=1e-4, atol=1e-3)
    noisy = fit_projection(vectors * (1 + 1e-7 * rng.normal(size=vectors.shape)), 12)
    np.testing.assert_allclose(noisy, matrix, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dim", [0, 100, 400])
def test_width_out_of_bounds(dim, tmp_path):
    with pytest.raises(ValueOutOfBounds, match=f"dim = {dim}"):
        write_embedded_checkpoint(corpus(), tmp_path, dim=dim)
