import numpy as np
import pytest
import torch

from knowgap.retrieval.bert import Bert, add_changes


@pytest.fixture
def tiny(tmp_path):
    """A BERT of Transformers with random weights, saved in `tmp_path`."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    model = BertModel(BertConfig(vocab_size=40, **shape)).eval()
    model.save_pretrained(tmp_path)
    return model


@torch.inference_mode()
@pytest.mark.parametrize("onednn", [True, False])
def test_it_computes_what_transformers_does(tiny, tmp_path, monkeypatch, onednn):
    if not onednn:
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    ids, attention = torch.randint(40, (3, 20)), torch.ones(3, 20, dtype=torch.long)
    attention[1, 12:] = 0
    types = (torch.arange(20) > 7).long().expand(3, -1)
    changes = {"encoder.layer.1.output.dense.bias": np.full(32, 0.5, np.float16)}
    for read in (None, types):
        expected = tiny(ids, attention, read).last_hidden_state[attention.bool()]
        found = Bert(tmp_path)(ids, attention, read)[attention.bool()]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    add_changes(dict(tiny.named_parameters()), changes)
    changed = Bert(tmp_path, changes=changes)(ids, attention)
    torch.testing.assert_close(changed[0], tiny(ids, attention).last_hidden_state[0], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(changed, Bert(tmp_path)(ids, attention))
