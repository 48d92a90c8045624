import copy

import numpy as np
import pytest

from knowgap.errors import CheckpointError
from knowgap.retrieval import NLICrossEncoder, T5TrueNLI, make_entailment
from tests.lms.local.tiny_models import write_language_model
from tests.retrieval.conformance import corpus
from tests.retrieval.tiny import write_cross_encoder

TEXTS = [str(passage) for passage in corpus(8)]
PAIRS = [(premise, hypothesis) for premise in TEXTS for hypothesis in TEXTS[::3]]
LABELS = ["contradiction", "entailment", "neutral"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "nli": write_cross_encoder(folder / "nli", TEXTS, names=LABELS),
        "binary": write_cross_encoder(folder / "binary", TEXTS, labels=1),
        "unnamed": write_cross_encoder(folder / "unnamed", TEXTS, labels=3),
        "t5": write_language_model(folder / "t5", "seq2seq", initializer_factor=2.0),
    }


@pytest.mark.parametrize("kind", ["nli", "binary", "t5", "grounding"])
def test_probabilities(models, kind):
    model = make_entailment(models.get(kind, kind))
    values = model.entails(PAIRS)
    assert len(values) == len(PAIRS)
    assert all(0 <= value <= 1 for value in values)
    assert len(set(values)) > (1 if kind == "grounding" else 3)
    assert model.entails([PAIRS[5], PAIRS[2], PAIRS[5]]) == [values[5], values[2], values[5]]
    assert model.entails([]) == []
    assert model.default_threshold == 0.5
    assert model.name
    assert copy.deepcopy(model) is model


@pytest.mark.parametrize("half", [True, False])
def test_t5_is_the_odds_of_its_first_answer(models, monkeypatch, half):
    import torch
    from transformers import AutoTokenizer, T5ForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(models["t5"])
    model = T5ForConditionalGeneration.from_pretrained(models["t5"]).eval()
    expected = []
    for premise, hypothesis in PAIRS[:9]:
        inputs = tokenizer(f"premise: {premise} hypothesis: {hypothesis}", return_tensors="pt")
        with torch.inference_mode():
            logits = model(**inputs, decoder_input_ids=torch.tensor([[0]])).logits[0, 0].double().numpy()
        zero, one = logits[tokenizer.convert_tokens_to_ids(["0", "1"])]
        expected.append(1 / (1 + np.exp(zero - one)))
    if not half:
        monkeypatch.setattr("knowgap.retrieval.entailment.bfloat16_on", lambda device: False)
    probabilities = T5TrueNLI(models["t5"]).entails(PAIRS[:9])
    assert probabilities == pytest.approx(expected, abs=0.05 if half else 1e-4)


def test_refuses_what_is_no_entailment_model(models):
    with pytest.raises(CheckpointError, match="none of its labels is entailment: label_0"):
        NLICrossEncoder(models["unnamed"])
