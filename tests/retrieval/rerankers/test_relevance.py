"""The features of the embedded reranker against figures worked out by hand, and its weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from knowgap.errors import CheckpointError
from knowgap.retrieval import EmbeddedReranker
from knowgap.retrieval.minilm import sentence_encoder
from knowgap.retrieval.rerankers import relevance as module
from knowgap.retrieval.rerankers.relevance import (
    EncodedText,
    RelevanceFeatures,
    RelevanceModel,
    coverage,
    late_interaction,
    stack_tokens,
)
from tests.retrieval.conformance import flip_last_bit

PACKAGE = Path(module.__file__).parent
QUERY = "Who directed the film Silver Harbour?"
RELEVANT = "Silver Harbour: Silver Harbour is a 1961 drama film directed by Ida Brenner."
RELATED = "Golden Valley: Golden Valley is a 1975 comedy film directed by Tom Hale."
UNRELATED = "Mount Kerrin: Mount Kerrin is a mountain in the north of the island."


@pytest.fixture(scope="module")
def features() -> RelevanceFeatures:
    return RelevanceFeatures(RelevanceModel.load().projection)


def _text(tokens: list[list[float]], weights: list[float]) -> EncodedText:
    return EncodedText(np.zeros(2, np.float32), np.array(tokens, np.float16), np.array(weights, np.float32))


def test_late_interaction_weighs_the_best_match_of_each_query_token():
    query = _text([[1, 0], [0, 1]], [0.75, 0.25])
    texts = [_text([[0, 1], [1, 0], [0, 1]], []), _text([[0.6, 0.8]], [])]
    both = late_interaction(query, *stack_tokens(texts))
    found = expit(10 * (1 - 0.7))
    assert both == pytest.approx([found, 0.75 * expit(10 * (0.6 - 0.7)) + 0.25 * expit(10 * (0.8 - 0.7))], abs=2e-3)


def test_similarity_is_the_cosine_of_the_sentence_vectors(features):
    vectors = sentence_encoder().encode([QUERY, RELEVANT, RELATED])
    computed = features.compute([(QUERY, RELEVANT), (QUERY, RELATED)])
    assert computed[:, 0] == pytest.approx(vectors[1:] @ vectors[0], abs=1e-5)


def test_coverage_is_that_of_the_best_sentence(features):
    parted = "The film is old. Ida Brenner directed it. It shows the Silver Harbour."
    stemmed, words = features._stemmed, ["directed", "film", "silver", "harbour"]
    weights = [rarity**2 for rarity in sentence_encoder().rarity(words)]
    best = coverage(words, weights, "It shows the Silver Harbour.", stemmed)
    assert 0 < best < coverage(words, weights, parted, stemmed) == pytest.approx(1.0)
    assert features.compute([(QUERY, parted)])[0, 2] == pytest.approx(best)


def test_what_answers_scores_highest_and_a_blank_lowest():
    reranker = EmbeddedReranker()
    model = RelevanceModel.load()
    pairs = [(QUERY, RELEVANT), (QUERY, RELATED), (QUERY, UNRELATED), (QUERY, " "), ("?!", "— … —")]
    relevant, related, unrelated, blank, wordless = reranker.score(pairs)
    assert np.isfinite(wordless)
    assert relevant > 0 > related > unrelated > blank == round(model.intercept, 3)
    assert relevant > (reranker.default_threshold or 0) > unrelated
    assert reranker.default_threshold == model.delta
    assert f"where {model.prior:g} of 50" in reranker.scale


def test_saved_weights_are_read_again(tmp_path):
    projection = np.random.default_rng(0).normal(size=(384, 384)).astype(np.float16).T  # columns lie together
    model = RelevanceModel(projection, np.array([1.0, 2.0, 3.0]), -4.0, -1.5, 1.3)
    model.save(tmp_path)
    read = RelevanceModel.load(tmp_path)
    assert (read.intercept, read.delta, read.prior) == (-4.0, -1.5, 1.3)
    assert read.coefficients.tolist() == [1.0, 2.0, 3.0]
    assert (read.projection == model.projection).all()
    assert read.logits(np.array([[1.0, 1.0, 1.0]])).tolist() == [2.0]
    assert EmbeddedReranker(tmp_path).default_threshold == -1.5


def test_damaged_foreign_and_missing_weights_are_refused(tmp_path):
    for name in ("relevance.safetensors", "relevance.json"):
        shutil.copy(PACKAGE / name, tmp_path)
    weights, settings = tmp_path / "relevance.safetensors", tmp_path / "relevance.json"
    flip_last_bit(weights)
    with pytest.raises(CheckpointError, match="damaged"):
        RelevanceModel.load(tmp_path)
    shutil.copy(PACKAGE / "relevance.safetensors", tmp_path)
    settings.write_text(json.dumps(json.loads(settings.read_text("utf-8")) | {"encoder": "0" * 64}), "utf-8")
    with pytest.raises(CheckpointError, match="another encoder"):
        RelevanceModel.load(tmp_path)
    settings.write_text("{}", "utf-8")
    with pytest.raises(CheckpointError, match="no weights"):
        RelevanceModel.load(tmp_path)
    with pytest.raises(CheckpointError, match="no weights"):
        RelevanceModel.load(tmp_path / "absent")


def test_the_card_states_the_model_that_is_there():
    model, card = RelevanceModel.load(), (PACKAGE / "relevance_card.md").read_text("utf-8")
    assert f"δ is {model.delta:g}" in card
    assert f"intercept\n{model.intercept:g}" in card
    assert all(f"{name} {value:g}" in card for name, value in zip(module.FEATURES, model.coefficients, strict=True))
