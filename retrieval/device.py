"""Where torch computes, with how many bits, and in which batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from knowgap.errors import ValueOutOfBounds

__all__ = ["bfloat16_on", "choose_device", "half_precision", "padded_batches"]

_WIDTH_STEP = 16


def choose_device(device: str | None) -> str:
    """The device as torch names it; None takes a CUDA GPU if there is one, otherwise the CPU.

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
    """A context in which torch computes with 16 bits if the processor can, and as usual otherwise."""
    import torch

    if device.startswith("cuda"):
        return torch.autocast("cuda", torch.float16)
    return torch.autocast("cpu", torch.bfloat16) if bfloat16_on(device) else nullcontext()


def padded_batches(texts: Sequence[Sequence[int]], capacity: int, padding: int) -> Iterator[tuple[list[int], Any, Any]]:
    """Divide tokenized texts into batches of one width each.

    The width of a text is its length rounded up to a multiple of 16, whatever else is in the batch, so that the last
    digits of its vectors do not depend on its neighbours.

    Args:
        texts: the token ids of each text.
        capacity: how many tokens a batch holds, padding included; a longer text is a batch by itself.
        padding: the token id that fills a text up to its width.

    Yields:
        The positions of the batch's texts; their token ids and their attention mask, tensors [texts, width].
    """
    import torch

    by_width: dict[int, list[int]] = {}
    for i, ids in enumerate(texts):
        by_width.setdefault(-(-len(ids) // _WIDTH_STEP) * _WIDTH_STEP, []).append(i)
    for width, members in sorted(by_width.items()):
        size = max(1, capacity // width)
        for start in range(0, len(members), size):
            batch = members[start : start + size]
            ids = torch.full((len(batch), width), padding)
            attention = torch.zeros_like(ids)
            for row, i in enumerate(batch):
                ids[row, : len(texts[i])] = torch.tensor(texts[i])
                attention[row, : len(texts[i])] = 1
            yield batch, ids, attention
