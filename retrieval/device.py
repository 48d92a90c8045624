"""The device, the precision and the batches with which torch computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

_WIDTH_STEP = 16


def one_thread() -> AbstractContextManager[Any]:
    """A context in which NumPy multiplies matrices in one thread.

    The matrices of a search are small, and searches of several threads run at once; threads of one product would wait
    for each other, on a busy machine ten times as long as the product takes.
    """
    return _blas().limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def choose_device() -> str:
    """The device as torch names it: a CUDA GPU if there is one that CUDA_VISIBLE_DEVICES allows, otherwise the CPU."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def bfloat16_on(device: str) -> bool:
    """Whether a device computes in bfloat16, as language models may."""
    import torch

    if device.startswith("cuda"):
        return torch.cuda.is_bf16_supported()
    return device == "cpu" and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def half_precision(device: str) -> AbstractContextManager[Any]:
    """A context in which torch computes with 16 bits on a GPU, and as usual elsewhere.

    A CPU computes in single precision also where it has bfloat16: the vectors of processors with and without it would
    differ ten thousand times as much as those of two processors in single precision, enough to change ranks.
    """
    import torch

    return torch.autocast("cuda", torch.float16) if device.startswith("cuda") else nullcontext()


def padded_batches(texts: Sequence[Sequence[int]], capacity: int, padding: int) -> Iterator[tuple[list[int], Any, Any]]:
    """Divide tokenized texts into batches of one width, each with at most `capacity` tokens or a single text.

    The width of a text is its length rounded up to a multiple of 16, whatever else is in the batch, so that the last
    digits of its vectors do not depend on its neighbours. It is filled up with the token id `padding`.

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
