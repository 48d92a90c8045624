import copy

import pytest
import torch

from knowgap.retrieval.bert import Bert, pack_linear_layers
from knowgap.retrieval.minilm import minilm_folder


@pytest.fixture
def model():
    torch.manual_seed(0)
    layers = (torch.nn.Linear(48, 96), torch.nn.GELU(), torch.nn.Linear(96, 32, bias=False))
    return torch.nn.Sequential(torch.nn.Sequential(*layers), torch.nn.LayerNorm(32)).eval()


@torch.inference_mode()
@pytest.mark.parametrize("rows", [1, 20, 1000])
def test_results_stay_the_same_but_for_the_last_digits(model, rows):
    packed = copy.deepcopy(model)
    pack_linear_layers(packed)
    assert not any(type(layer) is torch.nn.Linear for layer in packed[0])
    values = torch.randn(2, rows, 48)
    torch.testing.assert_close(packed(values), model(values), rtol=1e-4, atol=1e-5)


def test_without_onednn_nothing_is_packed(model, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    pack_linear_layers(model)
    assert type(model[0][0]) is torch.nn.Linear


def test_loading_a_model_draws_no_random_weights():
    before = torch.get_rng_state()
    Bert.load(minilm_folder())
    assert torch.equal(torch.get_rng_state(), before)
