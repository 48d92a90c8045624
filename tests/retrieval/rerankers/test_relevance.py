"""The features of the embedded reranker against figures worked out by hand, and its weights."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from knowgap.errors import CheckpointError
from knowgap.retrieval import EmbeddedReranker
from knowgap.retrieval.minilm import read_weights, write_weights
from knowgap.retrieval.rerankers import relevance as module
from knowgap.retrieval.rerankers.relevance import EncodedText, coverage, late_interaction
from tests.retrieval.conformance import flip_last_bit

PACKAGE = Path(module.__file__).parent
SETTINGS, TENSORS = read_weights(PACKAGE, "relevance")
QUERY = "Who directed the film Silver Harbour?"
RELEVANT = "Silver Harbour: Silver Harbour is a 1961 drama film directed by Ida Brenner."
RELATED = "Golden Valley: Golden Valley is a 1975 comedy film directed by Tom Hale."
UNRELATED = "Mount Kerrin: Mount Kerrin is a mountain in the north of the island."


def _text(tokens, weights):
    return EncodedText(np.zeros(2, np.float32), np.array(tokens, np.float16), np.array(weights, np.float32))


def test_late_interaction_weighs_the_best_match_of_each_query_token():
    query = _text([[1, 0], [0, 1]], [0.75, 0.25])
    texts = [_text([[0, 1], [1, 0], [0, 1]], []), _text([[0.6, 0.8]], [])]
    both = [late_interaction(query, text) for text in texts]
    found = expit(10 * (1 - 0.7))
    assert both == pytest.approx([found, 0.75 * expit(10 * (0.6 - 0.7)) + 0.25 * expit(10 * (0.8 - 0.7))], abs=2e-3)


def test_coverage_is_that_of_the_best_sentence():
    parted = "The film is old. Ida Brenner directed it. It shows the Silver Harbours."
    assert 0 < coverage(QUERY, parted) == coverage(QUERY, "It shows the Silver Harbour.") < coverage(QUERY, RELEVANT)
    assert coverage(QUERY, RELEVANT) == pytest.approx(1.0)
    assert coverage("Who is it?", RELEVANT) == 0.0
    film, lighthouse, zxqvorb = (coverage(f"{word} town", "a town") for word in ("film", "lighthouse", "zxqvorb"))
    assert film > lighthouse > zxqvorb  # the rarer what is missing, the less is covered


def test_what_answers_scores_highest_and_a_blank_lowest():
    reranker = EmbeddedReranker()
    pairs = [(QUERY, RELEVANT), (QUERY, RELATED), (QUERY, UNRELATED), (QUERY, " "), ("?!", "— … —")]
    relevant, related, unrelated, blank, wordless = reranker.score(pairs)
    assert np.isfinite(wordless)
    assert relevant > 0 > related > unrelated > blank == round(SETTINGS["intercept"], 3)
    assert relevant > (reranker.default_threshold or 0) > unrelated
    assert reranker.default_threshold == SETTINGS["delta"]


def test_written_weights_are_read_and_damaged_foreign_and_missing_ones_refused(tmp_path):
    projection = np.asfortranarray(TENSORS["projection"])  # columns lie together
    write_weights(tmp_path, "relevance", {"projection": projection}, {**SETTINGS, "delta": -1.5, "intercept": -4.0})
    assert (read_weights(tmp_path, "relevance")[1]["projection"] == projection).all()
    assert read_weights(tmp_path, "relevance")[0]["delta"] == -1.5
    flip_last_bit(tmp_path / "relevance.safetensors")
    with pytest.raises(CheckpointError, match="damaged"):
        read_weights(tmp_path, "relevance")
    (tmp_path / "relevance.json").write_text("{}", "utf-8")
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(CheckpointError, match="no weights"):
            read_weights(folder, "relevance")
