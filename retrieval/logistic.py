"""The logistic function and softmax in numpy; scipy.special, which has both, takes half a second to import."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def expit(logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The probability of each logit, in the logits' precision and without overflow; any shape."""
    return np.exp(-np.logaddexp(np.zeros((), logits.dtype), -logits))


def softmax(logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Probabilities along the last axis, which sum to 1; the shape of the logits."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
