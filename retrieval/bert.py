"""BERT (Devlin et al. 2019) in plain torch or in NumPy, by the names that Transformers gives its weights.

Importing Transformers takes seconds; and importing torch takes longer than all else that a search does, so that a
query is encoded in NumPy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from knowgap.retrieval.hub import one_thread

if TYPE_CHECKING:
    import torch


class Bert:
    """BERT without its pooler, for inference. Thread-safe.

    On a CPU, torch gets the weights in the layout of oneDNN, which it includes: passages take half the time.

    Args:
        folder: the checkpoint, with `config.json` and `model.safetensors`.
        device: where torch computes; None computes in NumPy, one text at a time.
        changes: what is added to the weights by their names; a matrix NAME is in four bits a number if there is a
            NAME.scale (see `unpack_nibbles`).
    """

    def __init__(self, folder: Path, device: str | None, changes: Mapping[str, Any] = MappingProxyType({})) -> None:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self._layers, self._heads = config["num_hidden_layers"], config["num_attention_heads"]
        self._eps = config["layer_norm_eps"]
        self._weights: Any = load_file(folder / "model.safetensors")
        for name in self._weights.keys() & changes.keys():
            scale = changes.get(f"{name}.scale")
            self._weights[name] += changes[name] if scale is None else unpack_nibbles(changes[name], scale)
        self._functional, self._computing = _IN_NUMPY, one_thread
        if device is not None:
            import torch

            self._functional, self._computing = torch.nn.functional, torch.inference_mode
            self._weights = _in_torch(self._weights, device)

    def __call__(self, ids: Any, attention: torch.Tensor | None = None, types: torch.Tensor | int = 0) -> Any:
        """Compute the hidden states of the last layer, [texts, tokens, width]; in NumPy [tokens, width].

        Args:
            ids: token ids [texts, tokens]; in NumPy those of one text.
            attention: 1 for a token that is attended to, 0 for padding [texts, tokens]; None for all 1.
            types: 0 for a token of the first text of a pair, 1 for one of the second [texts, tokens]; or one for all.
        """
        seen = None if attention is None or bool(attention.all()) else attention.bool()[:, None, None, :]
        words, places, kinds = (
            self._weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
        )
        with self._computing():
            states = words[ids] + kinds[types]
            states = self._norm("embeddings", states + places[: states.shape[-2]])
            for layer in range(self._layers):
                states = self._layer(f"encoder.layer.{layer}", states, seen)
        return states

    def _layer(self, name: str, states: Any, seen: Any) -> Any:
        parts = (self._linear(f"{name}.attention.self.{part}", states) for part in ("query", "key", "value"))
        heads = [part.reshape(*states.shape[:-1], self._heads, -1).swapaxes(-3, -2) for part in parts]
        mixed = self._functional.scaled_dot_product_attention(*heads, attn_mask=seen)
        mixed = self._linear(f"{name}.attention.output.dense", mixed.swapaxes(-3, -2).reshape(states.shape))
        states = self._norm(f"{name}.attention.output", mixed + states)
        between = self._functional.gelu(self._linear(f"{name}.intermediate.dense", states))
        return self._norm(f"{name}.output", self._linear(f"{name}.output.dense", between) + states)

    def _linear(self, name: str, values: Any) -> Any:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        if getattr(weight, "is_mkldnn", False):
            import torch

            return torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")
        return self._functional.linear(values, weight, bias)

    def _norm(self, name: str, values: Any) -> Any:
        weight, bias = self._weights[f"{name}.LayerNorm.weight"], self._weights[f"{name}.LayerNorm.bias"]
        return self._functional.layer_norm(values, weight.shape, weight, bias, self._eps)


def _in_torch(arrays: Mapping[str, Any], device: str) -> dict[str, torch.Tensor]:
    import torch

    weights = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    if device == "cpu" and torch.backends.mkldnn.is_available():
        linear = [name for name, weight in weights.items() if name.startswith("encoder.") and weight.ndim == 2]
        weights |= {name: torch.ops.mkldnn._reorder_linear_weight(weights[name]) for name in linear}
    return weights


def _attention(query: Any, key: Any, value: Any, attn_mask: None) -> Any:
    worth = query @ key.swapaxes(1, 2) / np.float32(query.shape[-1] ** 0.5)
    shares = np.exp(worth - worth.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True) @ value


def _layer_norm(values: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    centred = values - values.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(eps)) * weight + bias


def _gelu(values: Any) -> Any:
    """The normal distribution function times its argument, by Abramowitz and Stegun 1964, 7.1.26, exact to 2e-7."""
    distance = np.abs(values) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * distance)
    series = np.zeros_like(t)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + np.float32(factor)) * t
    above = series * np.exp(-(distance**2)) / 2  # the share of the distribution that lies beyond
    return values * np.where(values < 0, above, 1 - above)


_IN_NUMPY: Any = SimpleNamespace(
    linear=lambda values, weight, bias: values @ weight.T + bias,
    layer_norm=_layer_norm,
    gelu=_gelu,
    scaled_dot_product_attention=_attention,
)
"""What BERT needs of `torch.nn.functional`."""


def unpack_nibbles(packed: npt.NDArray[np.uint8], scale: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Unpack a matrix [rows, columns] of 4-bit numbers.

    Args:
        packed: [rows, columns / 2]; the lower half of each byte comes first, and 8 encodes 0.
        scale: [rows, groups]; the step size of each group of adjacent columns.
    """
    steps = np.stack([packed & 15, packed >> 4], axis=-1).astype(np.float32).reshape(*scale.shape, -1) - 8
    return (steps * scale.astype(np.float32)[:, :, None]).reshape(len(packed), -1)
