"""Trains the embedded entailment model: a logistic regression over what MiniLM and the words say of two texts.

It is fitted to tell true statements from false ones, each data set and both answers with the same weight. How often it
is right is measured on development sets, by `benchmarks/embedded.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit

from bundled_models.statements import Statement, read_statements
from knowgap.retrieval.entailment.embedded import EntailmentWeights
from knowgap.retrieval.entailment.features import FEATURES, EntailmentFeatures
from knowgap.storage.progress import Progress

_PENALTY = 3e-3  # on the squares of the coefficients of standardised features, beside the mean loss
_AT_ONCE = 128


def train_entailment(data: str | Path, output: str | Path, *, seed: int, progress: Progress) -> int:
    """Train the embedded entailment model and write its weights.

    Args:
        data: folder of training files; see `read_examples`.
        output: folder in which `entailment.json` is written: `EmbeddedEntailment(output)` takes it.
        seed: of the choice of statements and of their edits.
        progress: called with the statements done, their total, and what is done.

    Returns:
        The number of statements that it was trained on.

    Raises:
        DataError: there is no training file, or one is not in its layout.
    """
    statements = read_statements(data, seed)
    features = _all_features(statements, progress)
    sources = np.array([s.source for s in statements])
    true = np.array([s.true for s in statements])
    fit_weights(features, true, sources).save(output)
    return len(statements)


def _all_features(statements: Sequence[Statement], progress: Progress) -> npt.NDArray[np.float64]:
    compute = EntailmentFeatures()
    parts = []
    for start in range(0, len(statements), _AT_ONCE):
        progress(start, len(statements), "statements encoded")
        parts.append(compute([(s.premise, s.text) for s in statements[start : start + _AT_ONCE]]))
    progress(len(statements), len(statements), "statements encoded")
    return np.concatenate(parts)


def fit_weights(
    features: npt.NDArray[np.float64], true: npt.NDArray[np.bool_], sources: npt.NDArray[np.str_]
) -> EntailmentWeights:
    """Fit a logistic regression, in which each source has the same weight, half of it on what is true.

    Args:
        features: [statements, features].
        true: which statements are true. [statements].
        sources: the data set of each. [statements].
    """
    mean, spread = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-6)
    rows = np.column_stack([(features - mean) / spread, np.ones(len(features))])
    weight = np.zeros(len(true))
    for source in set(sources):
        for value in (False, True):
            chosen = (sources == source) & (true == value)
            weight[chosen] = 1 / max(1, chosen.sum())
    weight /= weight.sum()
    sign = np.where(true, 1.0, -1.0)

    def loss(w: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        logits = sign * (rows @ w)
        penalty = _PENALTY * np.append(w[:-1], 0.0)
        gradient = -rows.T @ (weight * sign * expit(-logits)) + penalty
        return float(weight @ np.logaddexp(0, -logits) + penalty @ w / 2), gradient

    found = minimize(loss, np.zeros(len(FEATURES) + 1), jac=True, method="L-BFGS-B").x
    coefficients = found[:-1] / spread
    return EntailmentWeights(coefficients.round(5), round(float(found[-1] - coefficients @ mean), 5))
