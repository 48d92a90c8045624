"""Results that are worth keeping within a process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

__all__ = ["LRUCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    """A bounded, thread-safe memory of computed values, the least recently used forgotten first.

    Args:
        size: how many values to keep.
    """

    def __init__(self, size: int) -> None:
        self._size, self._lock = size, threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, keys: Sequence[K], compute: Callable[[list[K]], Sequence[V]]) -> list[V]:
        """The values of some keys; `compute` is called once, outside the lock, with the distinct unknown ones."""
        found: dict[K, V] = {}
        with self._lock:
            for key in keys:
                if key in self._values:
                    self._values.move_to_end(key)
                    found[key] = self._values[key]
        missing = [key for key in dict.fromkeys(keys) if key not in found]
        if missing:
            computed = dict(zip(missing, compute(missing), strict=True))
            with self._lock:
                for key, value in computed.items():
                    # Of two threads that computed the same value the first is right, so that all see one value.
                    found[key] = self._values.setdefault(key, value)
                while len(self._values) > self._size:
                    self._values.popitem(last=False)
        return [found[key] for key in keys]
