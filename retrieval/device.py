"""Where torch computes, and with how many bits."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from knowgap.errors import ValueOutOfBounds

__all__ = ["bfloat16_on", "choose_device", "half_precision"]


def choose_device(device: str | None) -> str:
    """The device as torch names it; None means a CUDA GPU where there is one, and the CPU elsewhere.

    Raises:
        ValueOutOfBounds: torch does not have this device.
    """
    import torch

    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueOutOfBounds(f"device = {device!r}: torch cannot use it ({str(error).splitlines()[0]})") from error
    return device


def bfloat16_on(device: str) -> bool:
    """Whether the processor computes in bfloat16."""
    import torch

    if device.startswith("cuda"):
        return torch.cuda.is_bf16_supported()
    return device == "cpu" and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def half_precision(device: str) -> AbstractContextManager[Any]:
    """A context in which torch computes with 16 bits where the processor does; elsewhere nothing changes."""
    import torch

    if device.startswith("cuda"):
        return torch.autocast("cuda", torch.float16)
    return torch.autocast("cpu", torch.bfloat16) if bfloat16_on(device) else nullcontext()
