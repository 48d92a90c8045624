"""Models that score pairs of texts: rerankers and entailment."""

import copy

import numpy as np
import pytest

from knowgap.errors import CheckpointError
from knowgap.retrieval import CrossEncoderReranker, NLICrossEncoder, Reranker, T5TrueNLI, make_entailment, make_reranker
from tests.retrieval.conformance import QUERIES, corpus
from tests.tiny import write_cross_encoder, write_language_model

TEXTS = [str(passage) for passage in corpus(12)]
PAIRS = [(query, text) for query in QUERIES for text in TEXTS]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "cross": write_cross_encoder(folder / "cross", TEXTS + QUERIES),
        "nli": write_cross_encoder(folder / "nli", TEXTS, names=["contradiction", "entailment", "neutral"]),
        "unnamed": write_cross_encoder(folder / "unnamed", TEXTS, labels=3),
        "t5": write_language_model(folder / "t5", "seq2seq", initializer_factor=2.0),
    }


@pytest.mark.parametrize("name", ["cross", "embedded"])
def test_scores_of_a_reranker_do_not_depend_on_order_batch_or_repetition(models, name):
    one, other = (make_reranker(models.get(name, name)) for _ in range(2))
    scores, some = one.score(PAIRS), [*PAIRS[::-7], PAIRS[0]]
    assert len(scores) == len(PAIRS)
    assert all(isinstance(score, float) for score in scores)
    assert other.score(some) == pytest.approx([scores[PAIRS.index(pair)] for pair in some], abs=2e-3)
    assert one.score([]) == []
    assert len(one.score([("", ""), (" ", "text"), ("query", " "), ("half \ud83d", "half \ud83d")])) == 4
    assert isinstance(one, Reranker)
    assert copy.deepcopy(one) is one


def test_cross_encoder_scores_are_the_logits_of_the_model(models):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(models["cross"])
    model = AutoModelForSequenceClassification.from_pretrained(models["cross"]).eval()
    with torch.inference_mode():
        expected = [float(model(**tokenizer(*pair, return_tensors="pt")).logits) for pair in PAIRS[:15]]
    assert CrossEncoderReranker(models["cross"]).score(PAIRS[:15]) == pytest.approx(expected, abs=1e-4)
    assert len(set(np.round(expected, 3))) > 5


def test_default_thresholds(models, tmp_path):
    assert CrossEncoderReranker(models["cross"]).default_threshold is None
    assert CrossEncoderReranker(models["cross"], default_threshold=1.5).default_threshold == 1.5
    bge = write_cross_encoder(tmp_path / "bge-reranker-base", TEXTS)
    assert CrossEncoderReranker(bge).default_threshold == 3.0


CLAIMS = [(premise, hypothesis) for premise in TEXTS[:8] for hypothesis in TEXTS[:8:3]]


@pytest.mark.parametrize("kind", ["nli", "cross", "t5", "grounding"])
def test_probabilities_of_entailment(models, kind):
    model = make_entailment(models.get(kind, kind))
    values = model.entails(CLAIMS)
    assert len(values) == len(CLAIMS)
    assert all(0 <= value <= 1 for value in values)
    assert len(set(values)) > (1 if kind == "grounding" else 3)
    assert model.entails([CLAIMS[5], CLAIMS[2], CLAIMS[5]]) == [values[5], values[2], values[5]]
    assert model.entails([]) == []
    assert len(model.entails([("half \ud83d", "half \ud83d")])) == 1
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
    for premise, hypothesis in CLAIMS[:9]:
        inputs = tokenizer(f"premise: {premise} hypothesis: {hypothesis}", return_tensors="pt")
        with torch.inference_mode():
            logits = model(**inputs, decoder_input_ids=torch.tensor([[0]])).logits[0, 0].double().numpy()
        zero, one = logits[tokenizer.convert_tokens_to_ids(["0", "1"])]
        expected.append(1 / (1 + np.exp(zero - one)))
    if not half:
        monkeypatch.setattr("knowgap.retrieval.entailment.bfloat16_on", lambda device: False)
    probabilities = T5TrueNLI(models["t5"]).entails(CLAIMS[:9])
    assert probabilities == pytest.approx(expected, abs=0.05 if half else 1e-4)


@pytest.mark.parametrize(
    ("make", "problem"),
    [(CrossEncoderReranker, "gives 3 scores"), (NLICrossEncoder, "none of its labels is entailment: label_0")],
)
def test_a_classifier_of_something_else_is_refused(models, make, problem):
    with pytest.raises(CheckpointError, match=problem):
        make(models["unnamed"])
