"""Linear layers for one short text at a time, on a CPU.

torch multiplies by a weight matrix as it lies in memory. For the twenty rows of a query, rather than the thousand of a
batch of passages, most of the time goes into that; oneDNN, which torch brings with it, can lay the weights out for its
own product once, which halves it.
"""

from __future__ import annotations

import torch

__all__ = ["pack_linear_layers"]


class _PackedLinear(torch.nn.Module):
    """A linear layer whose weights oneDNN has laid out. Where another precision is asked for, the layer as it was."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """[..., in] to [..., out]."""
        if torch.is_autocast_enabled("cpu"):
            return self.linear(values)
        return torch.ops.mkldnn._linear_pointwise(values, self.packed, self.linear.bias, "none", [], "")


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
