"""Trains the embedded reranker: a logistic regression over what MiniLM and the words say of a query and a text.

It is fitted to tell gold passages from the other ones among 50 that late interaction ranks first, each set of
questions with the same weight. Each family of sets is held out in turn; what the rest gives on it sets δ. How well it
ranks is measured on development sets, by `benchmarks/retrieval.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from table import note

from bundled_models.ranked_questions import QuestionSet, read_question_sets
from knowgap.retrieval.colbert import fit_projection
from knowgap.retrieval.minilm import token_vectors, write_weights
from knowgap.retrieval.rerankers.relevance import FEATURES, NAME, RelevanceFeatures, late_interaction

_RETRIEVED, _BEST = 50, 5
_SHOWN = 0.9  # the share of gold among the best five that δ lets pass
_WIDTH, _PASSAGES_FOR_PROJECTION = 384, 400
_PENALTY = 1e-4


class _Candidates(NamedTuple):
    """The retrieved texts of a set's questions: 50 a question where there are so many, in the order of retrieval.

    Attributes:
        family: of the set.
        features: [questions, texts, 3].
        gold: which are gold. [questions, texts].
    """

    family: str
    features: npt.NDArray[np.float64]
    gold: npt.NDArray[np.bool_]


def train_relevance(data: str | Path, output: str | Path, seed: int) -> tuple[float, int]:
    """Train the embedded reranker and write it.

    Args:
        data: folder of training files; see `read_question_sets`.
        output: folder in which the weights are written: `read_weights` reads them.
        seed: of the choice of questions and passages.

    Returns:
        δ, and the number of pairs that the model was trained on.

    Raises:
        DataError: there is no training file, or one is not in its layout.
    """
    sets = read_question_sets(data, seed)
    projection = _projection(sets, seed)
    features = RelevanceFeatures(projection)
    candidates = [_candidates(own, features) for own in sets]
    delta = _delta(candidates)
    coefficients, intercept = _fit(candidates)
    settings = {
        "coefficients": dict(zip(FEATURES, coefficients.round(4).tolist(), strict=True)),
        "intercept": round(intercept, 4),
        "delta": delta,
        "prior": round(_RETRIEVED * float(np.mean([own.gold.mean() for own in candidates])), 2),
    }
    write_weights(output, NAME, {"projection": projection}, settings)
    return delta, sum(own.gold.size for own in candidates)


def _projection(sets: Sequence[QuestionSet], seed: int) -> npt.NDArray[np.float16]:
    texts = sorted({text for own in sets for text in own.texts})
    chosen = np.random.default_rng(seed).permutation(len(texts))[:_PASSAGES_FOR_PROJECTION]
    states = token_vectors([texts[i] for i in chosen])
    return fit_projection(np.concatenate([of_text for _, of_text in states]), _WIDTH).astype(np.float16)


def _candidates(own: QuestionSet, features: RelevanceFeatures) -> _Candidates:
    note(f"relevance: {len(own.questions)} questions of {own.family}")
    texts = features.encode(own.texts)
    rows, gold = [], []
    for asked, wanted in own.questions:
        [query] = features.encode([asked])
        scores = np.array([late_interaction(query, text) for text in texts])
        found = [own.texts[i] for i in np.argsort(-scores, kind="stable")[:_RETRIEVED]]
        rows.append(features.compute([(asked, text) for text in found]))
        gold.append([text in wanted for text in found])
    return _Candidates(own.family, np.array(rows), np.array(gold))


def _fit(candidates: Sequence[_Candidates]) -> tuple[npt.NDArray[np.float64], float]:
    """Coefficients and intercept of a logistic regression in which every set weighs the same."""
    from scipy.optimize import minimize
    from scipy.special import expit

    features = np.concatenate([own.features.reshape(-1, len(FEATURES)) for own in candidates])
    inputs = np.column_stack([features, np.ones(len(features))])
    gold = np.concatenate([own.gold.ravel() for own in candidates])
    sizes = np.array([own.gold.size for own in candidates])
    weights = np.repeat(1 / sizes, sizes) / len(candidates)

    def loss(parameters: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        logits = inputs @ parameters
        value = weights @ np.logaddexp(0, np.where(gold, -logits, logits)) + _PENALTY * parameters @ parameters / 2
        return float(value), inputs.T @ (weights * (expit(logits) - gold)) + _PENALTY * parameters

    fitted = minimize(loss, np.zeros(inputs.shape[1]), jac=True, method="L-BFGS-B").x
    return fitted[:-1], float(fitted[-1])


def _delta(candidates: Sequence[_Candidates]) -> float:
    """The largest δ, in tenths, that lets pass the wanted share of gold among the best five on every set.

    Each set has the logits of a model of the other families, or of a model of all sets where there is one family only.
    """
    lowest = []
    for own in candidates:
        coefficients, intercept = _fit([each for each in candidates if each.family != own.family] or candidates)
        scores = own.features @ coefficients + intercept
        best = np.argsort(-scores, axis=1, kind="stable")[:, :_BEST]
        of_gold = np.take_along_axis(scores, best, axis=1)[np.take_along_axis(own.gold, best, axis=1)]
        if of_gold.size:
            lowest.append(np.quantile(of_gold, 1 - _SHOWN, method="lower"))
    return float(np.floor(10 * min(lowest)) / 10)
