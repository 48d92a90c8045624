"""A bounded cache of computed values within a process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    """The `size` most recently used values by key. Thread-safe.

    Nothing is locked while values are computed, so a hit never waits for another thread's computation.
    """

    def __init__(self, size: int) -> None:
        self._size, self._lock = size, threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, keys: Sequence[K], compute: Callable[[list[K]], Sequence[V]]) -> list[V]:
        """The values of some keys, in their order; `compute` is called once, with the distinct keys that are missing.

        If two threads compute the same value, both return that of the first to finish.
        """
        values: dict[K, V] = {}
        with self._lock:
            for key in keys:
                if key in self._values:
                    self._values.move_to_end(key)
                    values[key] = self._values[key]
        if missing := [key for key in dict.fromkeys(keys) if key not in values]:
            computed = compute(missing)
            with self._lock:
                for key, value in zip(missing, computed, strict=True):
                    values[key] = self._values.setdefault(key, value)
                while len(self._values) > self._size:
                    self._values.popitem(last=False)
        return [values[key] for key in keys]
