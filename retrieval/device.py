"""The device, the precision and the threads with which torch and NumPy compute."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any


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
