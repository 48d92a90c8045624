"""Count the bytes of live tensors, in a module of its own so that torch is imported only when memory is estimated."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveTensors(TorchDispatchMode):
    """Adds up the bytes of the live tensors that operations have made while this mode is active.

    A tensor that shares the storage of another counts once.

    Args:
        before: tensors that do not count, such as the weights of a model.
    """

    def __init__(self, before: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self._before = [tensor.untyped_storage() for tensor in before]
        self._sizes = {storage._cdata: 0 for storage in self._before}
        self._bytes = self._most = 0

    def take_most(self) -> int:
        """The largest sum since the last call; the maximum then starts again from the current sum."""
        most, self._most = self._most, self._bytes
        return most

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count what it returns."""
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                place = storage._cdata
                if place not in self._sizes:
                    self._sizes[place] = storage.nbytes()
                    self._bytes += storage.nbytes()
                    self._most = max(self._most, self._bytes)
                    weakref.finalize(storage, self._remove, place)
        return made

    def _remove(self, place: int) -> None:
        self._bytes -= self._sizes.pop(place)
