"""Linear layers for inference on a CPU.

torch multiplies by a weight matrix in the layout that the matrix has in memory. For the twenty rows of a query, unlike
the thousand of a batch of passages, this takes most of the time. oneDNN, which torch includes, can convert the weights
to its own layout once, which halves the time. In half precision it also saves casting the weights for every batch.
"""

from __future__ import annotations

import torch

from knowgap.retrieval.device import bfloat16_on


class _PackedLinear(torch.nn.Module):
    """A linear layer with weights in oneDNN's layout: in single precision, and in bfloat16 if the CPU has it."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self._packed = {torch.float32: _packed(linear, torch.float32)}
        if bfloat16_on("cpu"):
            self._packed[torch.bfloat16] = _packed(linear, torch.bfloat16)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """[..., in] to [..., out], in the precision of the current autocast."""
        wanted = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32
        if wanted not in self._packed:
            return self.linear(values)
        weight, bias = self._packed[wanted]
        return torch.ops.mkldnn._linear_pointwise(values.to(wanted), weight, bias, "none", [], "")


def _packed(linear: torch.nn.Linear, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor | None]:
    weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach().to(dtype))
    return weight, None if linear.bias is None else linear.bias.detach().to(dtype)


def pack_linear_layers(module: torch.nn.Module) -> None:
    """Replace the linear layers of a model in place, for inference on a CPU; the model must not be saved afterwards.

    Nothing is changed if torch has no oneDNN, or if the weights are not in single precision. Results differ in the
    last digits.
    """
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return
    for name, child in module.named_children():
        if isinstance(child, torch.nn.Linear):
            if child.weight.device.type == "cpu" and child.weight.dtype == torch.float32:
                setattr(module, name, _PackedLinear(child))
        else:
            pack_linear_layers(child)
