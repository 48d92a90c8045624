"""Exact late interaction: the sum, over the query's tokens, of the highest similarity to a passage token (MaxSim).

Khattab and Zaharia 2020, "ColBERT", equation 3. Token vectors are on disk in 16 bits and are read through a memory
map. A first pass in single precision selects passages; these are scored again in double precision, and a hit's score is
rounded, so that it depends only on the query and the passage, and not on the batch, the filter, the thread or the
search settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from knowgap.errors import IndexDamaged

VECTORS, LENGTHS = "tokens.f16", "tokens.lengths.npy"

_TOKENS_AT_ONCE = 1 << 13  # as many as fit into a CPU's cache in 32 bits
_TOKENS_AT_ONCE_ON_GPU = 1 << 18
_ROWS_AT_ONCE = 128  # query token vectors in one matrix product
_KEPT_VALUES = 1 << 27  # up to this size, 512 MiB, the vectors of an index are kept in single precision
_MARGIN = 1e-3  # exceeds the error of single precision on a sum of some hundred cosines


class Vectors(Protocol):
    """An array of token vectors, or an object that is indexed like one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """[tokens, dim]."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> npt.NDArray[np.float16]: ...


class TokenVectors:
    """The token vectors of passages, in the order of the passages.

    Args:
        vectors: float16 [tokens, dim], or an object that returns such an array for a slice or for row numbers.
        lengths: how many tokens each passage has, [passages], each at least 1.
        device: where the first pass computes; a GPU holds the vectors if they fit into half of its free memory.
    """

    def __init__(self, vectors: Vectors, lengths: npt.NDArray[np.integer], *, device: str = "cpu") -> None:
        self.vectors, self.lengths = vectors, np.asarray(lengths, dtype=np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])
        self._device = device
        self._resident = None
        self._widened: Any = None
        if _fits(vectors, device):
            import torch

            self._resident = torch.from_numpy(np.ascontiguousarray(vectors[:])).to(device)

    @classmethod
    def open(cls, folder: Path, dim: int, *, vectors: Vectors | None = None, device: str = "cpu") -> TokenVectors:
        """Open `tokens.lengths.npy` and, unless `vectors` is given, map `tokens.f16` in a folder.

        Raises:
            IndexDamaged: they do not fit each other.
        """
        lengths = np.load(folder / LENGTHS, allow_pickle=False)
        if vectors is None:
            flat = np.memmap(folder / VECTORS, dtype=np.float16, mode="r")
            vectors = flat[: len(flat) // dim * dim].reshape(-1, dim)
        if len(vectors) != int(lengths.sum()):
            raise IndexDamaged(f"{folder}: {VECTORS} does not fit {LENGTHS}; build the index again")
        return cls(vectors, lengths, device=device)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU holds the vectors, so that scanning all of them is the fastest way to search."""
        return self._resident is not None

    def scan(
        self, queries: list[npt.NDArray[np.float32]], positions: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.float32]:
        """Score passages in single precision: [queries, passages], or [queries, positions].

        A query is given by its token vectors, [tokens, dim]. The positions are ascending; None scores all passages.
        """
        import torch

        count = len(self) if positions is None else len(positions)
        scores = np.empty((len(queries), count), dtype=np.float32)
        lengths = self.lengths if positions is None else self.lengths[positions]
        stacks = [(rows, torch.from_numpy(stack).to(self._device)) for rows, stack in _stacked(queries)]
        ends, most = np.cumsum(lengths), _TOKENS_AT_ONCE if self._device == "cpu" else _TOKENS_AT_ONCE_ON_GPU
        first = 0
        while first < count:
            done = ends[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends, done + most, side="right")))
            block = self._block(first, last, positions)
            cuts = torch.from_numpy(lengths[first:last]).to(self._device)
            for rows, stack in stacks:
                best = _run_maxima(stack @ block.T, cuts)
                for row, (begin, end) in rows.items():
                    scores[row, first:last] = best[begin:end].sum(0).cpu().numpy()
            first = last
        return scores

    def _block(self, first: int, last: int, positions: npt.NDArray[np.int64] | None) -> Any:
        """The vectors of the passages from `first` to `last`, or of those at `positions`, as a tensor."""
        import torch

        if positions is None:
            rows = slice(int(self.starts[first]), int(self.starts[last]))
        else:
            rows = self._rows(positions[first:last])
        if self._resident is not None:
            return self._resident[rows if isinstance(rows, slice) else torch.from_numpy(rows).to(self._device)].float()
        if positions is None and self.vectors.shape[0] * self.vectors.shape[1] <= _KEPT_VALUES:
            if self._widened is None:
                self._widened = torch.from_numpy(np.array(self.vectors[:])).float()
            return self._widened[rows]
        return torch.from_numpy(np.array(self.vectors[rows])).float()

    def _rows(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The row numbers of the vectors of some passages, passage after passage."""
        return runs(self.starts[positions], self.lengths[positions])

    def of(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float16]:
        """The vectors of some passages, passage after passage."""
        return self.vectors[self._rows(positions)]

    def rescore(self, query: npt.NDArray[np.float32], positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The scores of some passages in double precision. [positions]."""
        if not len(positions):
            return np.empty(0)
        import torch

        vectors = torch.from_numpy(self.of(positions)).double()
        similarities = torch.from_numpy(query.astype(np.float64)) @ vectors.T
        scores = _run_maxima(similarities, torch.from_numpy(self.lengths[positions])).sum(0)
        return np.asarray(scores.numpy(), dtype=np.float64)

    def best(
        self,
        query: npt.NDArray[np.float32],
        k: int,
        rough: npt.NDArray[np.float32],
        positions: npt.NDArray[np.int64] | None = None,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Score again the `k` best passages of a first pass, and all that tie with them within its error.

        `rough` are the scores that `scan` gave to the passages at `positions` (None for all passages, in order) for the
        query, which is given by its token vectors, [tokens, dim].

        Returns:
            Positions and scores, at least `k` of each unless there are fewer, in no order.
        """
        if len(rough) > k:
            cut = np.partition(rough, len(rough) - k)[len(rough) - k]
            rows = np.flatnonzero(rough >= cut - _MARGIN)
        else:
            rows = np.arange(len(rough))
        chosen = rows if positions is None else positions[rows]
        return chosen, self.rescore(query, chosen)


def runs(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The numbers start, start + 1, … of each run, run after run."""
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.repeat(starts, lengths) + within


def _fits(vectors: Vectors, device: str) -> bool:
    """Whether the device is a GPU and the vectors, in 16 bits, take less than half of its free memory."""
    if not device.startswith("cuda") or not len(vectors):
        return False
    import torch

    return 2 * vectors.shape[0] * vectors.shape[1] < torch.cuda.mem_get_info(device)[0] / 2


def _stacked(
    queries: list[npt.NDArray[np.float32]],
) -> Iterator[tuple[dict[int, tuple[int, int]], npt.NDArray[np.float32]]]:
    """Stack queries for one matrix product each; yields the rows of each query in a stack, and the stack."""
    first, total, rows = 0, 0, dict[int, tuple[int, int]]()
    for number, query in enumerate(queries):
        if rows and total + len(query) > _ROWS_AT_ONCE:
            yield rows, np.concatenate(queries[first:number])
            first, total, rows = number, 0, {}
        rows[number] = (total, total + len(query))
        total += len(query)
    if rows:
        yield rows, np.concatenate(queries[first:])


def _run_maxima(similarities, lengths):  # noqa: ANN001, ANN202  # torch.Tensor
    """The maximum of each run of columns, [tokens, runs], from [tokens, columns] and the lengths of runs, [runs]."""
    import torch

    if similarities.device.type == "cpu":  # NumPy is several times faster than torch here
        starts = (torch.cumsum(lengths, 0) - lengths).numpy()
        return torch.from_numpy(np.maximum.reduceat(similarities.numpy(), starts, axis=1))
    return torch.segment_reduce(similarities.T.contiguous(), "max", lengths=lengths, axis=0).T
