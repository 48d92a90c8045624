"""Linear layers for inference on a CPU.

torch multiplies by a weight matrix as it lies in memory. For the twenty rows of a query, rather than the thousand of a
batch of passages, most of the time goes into that; oneDNN, which torch brings with it, can lay the weights out for its
own product once, which halves it. In half precision it saves casting the weights for every batch as well.
"""

from __future__ import annotations

import torch

from knowgap.retrieval.device import bfloat16_on

__all__ = ["pack_linear_layers"]


class _PackedLinear(torch.nn.Module):
    """A linear layer whose weights oneDNN has laid out: in single precision, and in bfloat16 if it computes in that."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self._packed = {torch.float32: _packed(linear, torch.float32)}
        if bfloat16_on("cpu"):
            self._packed[torch.bfloat16] = _packed(linear, torch.bfloat16)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """[..., in] to [..., out], in the precision that is asked for."""
        wanted = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32
        if wanted not in self._packed:
            return self.linear(values)
        weight, bias = self._packed[wanted]
        return torch.ops.mkldnn._linear_pointwise(values.to(wanted), weight, bias, "none", [], "")


def _packed(linear: torch.nn.Linear, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor | None]:
    weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach().to(dtype))
    return weight, None if linear.bias is None else linear.bias.detach().to(dtype)


def pack_linear_layers(module: torch.nn.Module) -> None:
    """Replace the linear layers of a model, which is to be used for inference on a CPU and not saved.

    Where this torch comes without oneDNN, or the weights are not in single precision, nothing is changed. Results
    differ in the last digits.

    Args:
        module: the model; changed in place.
    """
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return
    for name, child in module.named_children():
        if type(child) is torch.nn.Linear:
            if child.weight.device.type == "cpu" and child.weight.dtype == torch.float32:
                setattr(module, name, _PackedLinear(child))
        else:
            pack_linear_layers(child)
