"""BERT in NumPy, for one short text at a time: importing torch takes longer than all else that a search does.

It computes the same function as `knowgap.retrieval.bert` from the same weights; results differ in the last digits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.hub import one_thread

States = npt.NDArray[np.float32]


class NumpyBert:
    """BERT without its pooler, for inference on a CPU. Thread-safe.

    Args:
        folder: the checkpoint, with `config.json` and `model.safetensors`.
    """

    def __init__(self, folder: Path) -> None:
        from safetensors.numpy import load_file

        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self._layers, self._heads = config["num_hidden_layers"], config["num_attention_heads"]
        self._eps, self._weights = np.float32(config["layer_norm_eps"]), load_file(folder / "model.safetensors")

    def __call__(self, ids: Sequence[int]) -> States:
        """The hidden states of the last layer for the token ids of one text, [tokens, width]."""
        words, places, kinds = (
            self._weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
        )
        with one_thread():
            states = self._norm("embeddings", words[ids] + kinds[0] + places[: len(ids)])
            for layer in range(self._layers):
                states = self._layer(f"encoder.layer.{layer}", states)
        return states

    def _layer(self, name: str, states: States) -> States:
        query, key, value = (
            self._linear(f"{name}.attention.self.{part}", states).reshape(len(states), self._heads, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        worth = query @ key.swapaxes(1, 2) / np.float32(query.shape[-1] ** 0.5)
        shares = np.exp(worth - worth.max(axis=-1, keepdims=True))
        mixed = (shares / shares.sum(axis=-1, keepdims=True) @ value).swapaxes(0, 1).reshape(states.shape)
        states = self._norm(f"{name}.attention.output", self._linear(f"{name}.attention.output.dense", mixed) + states)
        between = _gelu(self._linear(f"{name}.intermediate.dense", states))
        return self._norm(f"{name}.output", self._linear(f"{name}.output.dense", between) + states)

    def _linear(self, name: str, values: States) -> States:
        return values @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _norm(self, name: str, values: States) -> States:
        weight, bias = self._weights[f"{name}.LayerNorm.weight"], self._weights[f"{name}.LayerNorm.bias"]
        centred = values - values.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self._eps)
        return centred / spread * weight + bias


def _gelu(values: States) -> States:
    """The normal distribution function times its argument, by Abramowitz and Stegun 1964, 7.1.26, exact to 2e-7."""
    distance = np.abs(values) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * distance)
    series = np.zeros_like(t)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + np.float32(factor)) * t
    above = series * np.exp(-(distance**2)) / 2  # the share of the distribution that lies beyond
    return values * np.where(values < 0, above, 1 - above)


@lru_cache(maxsize=1)
def numpy_minilm() -> NumpyBert:
    """The MiniLM encoder, shared by this process.

    Raises:
        CheckpointError: see `minilm_folder`.
    """
    from knowgap.retrieval.minilm import minilm_folder

    return NumpyBert(minilm_folder())
