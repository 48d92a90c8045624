"""Inversion of the keys of each passage, such as its words, into the passages of each key, in bounded memory.

Passages are read in portions. The pairs of a passage and a key in a portion are sorted by key and appended to temporary
files. The portions are then merged, one range of keys after another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.colbert.maxsim import runs

Array = npt.NDArray[Any]


class Portions:
    """Sorted portions in temporary files, which `remove` removes.

    Args:
        folder: an existing folder for the files.
        keys: the upper limit of the keys, which are integers from 0 and about evenly distributed.
        types: the types of the values of a pair; the first value is the passage.
    """

    def __init__(self, folder: Path, keys: int, types: list[Any]) -> None:
        self.size = 0  # pairs of a passage and a key
        self._limit, self._types = keys, [np.uint64, np.int32, *types]
        self._ends = [(0, 0)]  # where each portion ends, among the keys and among the pairs
        self._paths = [folder / f"portions.{number}" for number in range(len(self._types))]
        self._files = [path.open("wb") for path in self._paths]

    def write(self, keys: Array, counts: Array, *columns: Array) -> None:
        """Append a portion: its distinct keys, ascending; how many pairs each has; and the pairs' values."""
        for file, kind, column in zip(self._files, self._types, (keys, counts, *columns), strict=True):
            file.write(column.astype(kind, copy=False).tobytes())
        self.size += len(columns[0])
        self._ends.append((self._ends[-1][0] + len(keys), self.size))

    def merge(self, at_once: int) -> Iterator[tuple[float, Array, Array, list[Array]]]:
        """Merge the portions, one range of keys after another.

        Args:
            at_once: about how many pairs a range has; it has more if a single key does.

        Yields:
            The share of the ranges that are done, this one included; the distinct keys of the range, ascending; how
            many pairs each key has; and the values of the pairs. Those of one key are in the order of the portions.
        """
        for file in self._files:
            file.flush()
        ranges = max(1, math.ceil(self.size / at_once))
        bounds = np.array([number * self._limit // ranges for number in range(1, ranges)], dtype=np.uint64)
        # Where each range begins in a portion: among all keys, and among all pairs.
        rows, places = [], []
        for (first, place), (last, _) in zip(self._ends, self._ends[1:], strict=False):
            cuts = np.concatenate([[0], np.searchsorted(self._read(0, first, last), bounds), [last - first]])
            before = np.concatenate([[0], np.cumsum(self._read(1, first, last), dtype=np.int64)])
            rows.append((first + cuts).tolist())
            places.append((place + before[cuts]).tolist())
        for number in range(ranges):

            def piece(column: int, cuts: list[list[int]], at: int = number) -> Array:
                return np.concatenate([self._read(column, *own[at : at + 2]) for own in cuts])

            keys, counts = piece(0, rows), piece(1, rows).astype(np.int64)
            order = np.argsort(keys, kind="stable")
            distinct, first = np.unique(keys[order], return_index=True)
            pairs = runs((np.cumsum(counts) - counts)[order], counts[order])
            frequencies = np.add.reduceat(counts[order], first) if len(first) else counts
            columns = [piece(column, places)[pairs] for column in range(2, len(self._types))]
            yield (number + 1) / ranges, distinct, frequencies, columns

    def remove(self) -> None:
        """Remove the files."""
        for file, path in zip(self._files, self._paths, strict=True):
            file.close()
            path.unlink(missing_ok=True)

    def _read(self, column: int, start: int, end: int) -> Array:
        kind = np.dtype(self._types[column])
        return np.fromfile(self._paths[column], kind, end - start, offset=start * kind.itemsize)


class ArrayFile:
    """A NumPy file, one-dimensional or with rows of `width`, that is written in pieces and complete after the block."""

    def __init__(self, path: Path, kind: Any, width: int | None = None) -> None:
        self._row = () if width is None else (width,)
        self._file, self._kind, self._size = path.open("wb"), np.dtype(kind), 0  # a full disk would crash a memory map

    def __enter__(self) -> ArrayFile:
        self._write_header()
        return self

    def __exit__(self, *_: object) -> None:
        with self._file:
            self._file.seek(0)
            self._write_header()

    def write(self, values: Array) -> None:
        """Append values."""
        self._file.write(values.astype(self._kind, copy=False).tobytes())
        self._size += len(values)

    def _write_header(self) -> None:
        """Write the header, which NumPy pads to the same length for any size."""
        kind = np.lib.format.dtype_to_descr(self._kind)
        header = {"descr": kind, "fortran_order": False, "shape": (self._size, *self._row)}
        np.lib.format.write_array_header_1_0(self._file, header)
