"""BERT in plain torch. The encoders of an index use it, since importing Transformers takes seconds.

The modules have the same names as in Transformers, whose weights they load, and compute the same function (Devlin et
al. 2019).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class _Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        """Skip the random initialization, since weights from a file replace it."""


class _Linear(nn.Linear):
    def reset_parameters(self) -> None:
        """Skip the random initialization, as `_Embedding` does."""


class Bert(nn.Module):
    """BERT without its pooler; `config` has the settings in a checkpoint's `config.json`."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width = config["hidden_size"]
        self.embeddings: Any = nn.ModuleDict(
            {
                "word_embeddings": _Embedding(config["vocab_size"], width),
                "position_embeddings": _Embedding(config["max_position_embeddings"], width),
                "token_type_embeddings": _Embedding(config["type_vocab_size"], width),
                "LayerNorm": nn.LayerNorm(width, config["layer_norm_eps"]),
            }
        )
        self.encoder = nn.ModuleDict(
            {"layer": nn.ModuleList(_Layer(config) for _ in range(config["num_hidden_layers"]))}
        )

    @classmethod
    def load(cls, folder: Path) -> Bert:
        """Load the weights in a checkpoint's folder.

        Raises:
            KeyError: a weight is missing.
        """
        from safetensors.torch import load_file

        model = cls(json.loads((folder / "config.json").read_text(encoding="utf-8")))
        weights = load_file(folder / "model.safetensors")
        model.load_state_dict({name: weights[name].float() for name in model.state_dict()})
        return model.eval()

    def forward(self, ids: torch.Tensor, attention: torch.Tensor, types: torch.Tensor | None = None) -> torch.Tensor:
        """Compute the hidden states of the last layer, [texts, tokens, width].

        Args:
            ids: token ids [texts, tokens].
            attention: 1 for a token that is attended to, 0 for padding [texts, tokens].
            types: 0 for a token of the first text of a pair, 1 for one of the second [texts, tokens]; None for all 0.
        """
        places = torch.arange(ids.shape[1], device=ids.device)
        parts = self.embeddings
        of_types = parts["token_type_embeddings"]
        states = parts["word_embeddings"](ids) + (of_types.weight[0] if types is None else of_types(types))
        states = parts["LayerNorm"](states + parts["position_embeddings"](places))
        seen = None if bool(attention.all()) else attention.bool()[:, None, None, :]
        layers: Any = self.encoder["layer"]
        for layer in layers:
            states = layer(states, seen)
        return states


class _Layer(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, between, eps = config["hidden_size"], config["intermediate_size"], config["layer_norm_eps"]
        self.heads = config["num_attention_heads"]
        self.attention = nn.ModuleDict(
            {
                "self": nn.ModuleDict({name: _Linear(width, width) for name in ("query", "key", "value")}),
                "output": _output(width, width, eps),
            }
        )
        self.intermediate = nn.ModuleDict({"dense": _Linear(width, between)})
        self.output = _output(between, width, eps)

    def forward(self, states: torch.Tensor, seen: torch.Tensor | None) -> torch.Tensor:
        own: Any = self.attention["self"]
        split = [
            own[name](states).unflatten(-1, (self.heads, -1)).transpose(1, 2) for name in ("query", "key", "value")
        ]
        mixed = functional.scaled_dot_product_attention(*split, attn_mask=seen).transpose(1, 2).flatten(2)
        states = _added(self.attention["output"], mixed, states)
        return _added(self.output, functional.gelu(self.intermediate["dense"](states)), states)


def _output(width_in: int, width: int, eps: float) -> nn.ModuleDict:
    return nn.ModuleDict({"dense": _Linear(width_in, width), "LayerNorm": nn.LayerNorm(width, eps)})


def _added(output: Any, values: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    return output["LayerNorm"](output["dense"](values) + states)


class _PackedLinear(nn.Module):
    """A linear layer with weights in oneDNN's layout, in single precision."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """[..., in] to [..., out]."""
        return torch.ops.mkldnn._linear_pointwise(values, self._weight, self._bias, "none", [], "")


def pack_linear_layers(module: nn.Module) -> None:
    """Replace the linear layers of a model in place, for inference on a CPU; the model must not be saved afterwards.

    torch multiplies by a weight matrix in the layout that it has in memory, and oneDNN, which torch includes, in a
    layout of its own, to which the weights are converted once: passages take half the time. Results differ in the last
    digits. Nothing is changed if torch has no oneDNN.
    """
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            if child.weight.device.type == "cpu":
                setattr(module, name, _PackedLinear(child))
        else:
            pack_linear_layers(child)
