"""BERT in plain torch. The encoders of an index use it, since importing Transformers takes seconds.

It takes the weights by the names that Transformers gives them, and computes the same function (Devlin et al. 2019).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional


class Bert:
    """BERT without its pooler, for inference.

    torch multiplies by a weight matrix in the layout that it has in memory, and oneDNN, which torch includes, in a
    layout of its own, to which the matrices are converted once on a CPU: passages take half the time. Results differ in
    the last digits.

    Args:
        folder: the checkpoint, with `config.json` and `model.safetensors`.
        device: where torch computes.
        changes: what is added to the weights; see `add_changes`.
    """

    def __init__(
        self, folder: Path, device: str = "cpu", changes: Mapping[str, npt.NDArray[Any]] | None = None
    ) -> None:
        from safetensors.torch import load_file

        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self._layers, self._heads = config["num_hidden_layers"], config["num_attention_heads"]
        self._eps = config["layer_norm_eps"]
        weights = {name: weight.float() for name, weight in load_file(folder / "model.safetensors").items()}
        add_changes(weights, changes or {})
        self._weights = {name: _packed(name, weight.to(device)) for name, weight in weights.items()}

    @torch.inference_mode()
    def __call__(self, ids: torch.Tensor, attention: torch.Tensor, types: torch.Tensor | None = None) -> torch.Tensor:
        """Compute the hidden states of the last layer, [texts, tokens, width].

        Args:
            ids: token ids [texts, tokens].
            attention: 1 for a token that is attended to, 0 for padding [texts, tokens].
            types: 0 for a token of the first text of a pair, 1 for one of the second [texts, tokens]; None for all 0.
        """
        words, places, kinds = (
            self._weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
        )
        states = functional.embedding(ids, words) + (kinds[0] if types is None else functional.embedding(types, kinds))
        states = self._norm("embeddings", states + places[: ids.shape[1]])
        seen = None if bool(attention.all()) else attention.bool()[:, None, None, :]
        for layer in range(self._layers):
            states = self._layer(f"encoder.layer.{layer}", states, seen)
        return states

    def _layer(self, name: str, states: torch.Tensor, seen: torch.Tensor | None) -> torch.Tensor:
        split = [
            self._linear(f"{name}.attention.self.{part}", states).unflatten(-1, (self._heads, -1)).transpose(1, 2)
            for part in ("query", "key", "value")
        ]
        mixed = functional.scaled_dot_product_attention(*split, attn_mask=seen).transpose(1, 2).flatten(2)
        own = self._linear(f"{name}.attention.output.dense", mixed)
        states = self._norm(f"{name}.attention.output", own + states)
        between = functional.gelu(self._linear(f"{name}.intermediate.dense", states))
        return self._norm(f"{name}.output", self._linear(f"{name}.output.dense", between) + states)

    def _linear(self, name: str, values: torch.Tensor) -> torch.Tensor:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        if weight.is_mkldnn:
            return torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")
        return functional.linear(values, weight, bias)

    def _norm(self, name: str, values: torch.Tensor) -> torch.Tensor:
        weight, bias = self._weights[f"{name}.LayerNorm.weight"], self._weights[f"{name}.LayerNorm.bias"]
        return functional.layer_norm(values, weight.shape, weight, bias, self._eps)


def _packed(name: str, weight: torch.Tensor) -> torch.Tensor:
    """A weight; that of a linear layer on a CPU in oneDNN's layout, if torch has it."""
    linear = name.startswith("encoder.") and weight.ndim == 2 and weight.device.type == "cpu"
    known = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return torch.ops.mkldnn._reorder_linear_weight(weight) if linear and known else weight


def add_changes(weights: Mapping[str, torch.Tensor], changes: Mapping[str, npt.NDArray[Any]]) -> None:
    """Add changes to the weights of BERT, in place, where both have the name.

    A matrix NAME is stored in four bits a number if there is a NAME.scale; see `unpack_nibbles`.
    """
    with torch.no_grad():
        for name in weights.keys() & changes.keys():
            scale = changes.get(f"{name}.scale")
            change = changes[name].astype(np.float32) if scale is None else unpack_nibbles(changes[name], scale)
            weights[name].add_(torch.from_numpy(change))


def unpack_nibbles(packed: npt.NDArray[np.uint8], scale: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Unpack a matrix [rows, columns] of 4-bit numbers.

    Args:
        packed: [rows, columns / 2]; the lower half of each byte comes first, and 8 encodes 0.
        scale: [rows, groups]; the step size of each group of adjacent columns.
    """
    steps = np.stack([packed & 15, packed >> 4], axis=-1).astype(np.float32).reshape(*scale.shape, -1) - 8
    return (steps * scale.astype(np.float32)[:, :, None]).reshape(len(packed), -1)
