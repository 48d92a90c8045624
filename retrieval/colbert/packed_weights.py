"""Linear layers for inference on a CPU.

torch multiplies by a weight matrix in the layout that the matrix has in memory. For the twenty rows of a query, unlike
the thousand of a batch of passages, this takes most of the time. oneDNN, which torch includes, can convert the weights
to its own layout once, which halves the time.
"""

from __future__ import annotations

import torch


class _PackedLinear(torch.nn.Module):
    """A linear layer with weights in oneDNN's layout, in single precision."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """[..., in] to [..., out]."""
        return torch.ops.mkldnn._linear_pointwise(values, self._weight, self._bias, "none", [], "")


def pack_linear_layers(module: torch.nn.Module) -> None:
    """Replace the linear layers of a model in place, for inference on a CPU; the model must not be saved afterwards.

    The weights are in single precision. Nothing is changed if torch has no oneDNN. Results differ in the last digits.
    """
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return
    for name, child in module.named_children():
        if isinstance(child, torch.nn.Linear):
            if child.weight.device.type == "cpu":
                setattr(module, name, _PackedLinear(child))
        else:
            pack_linear_layers(child)
