"""The vectors of passages: their means choose candidates, and MaxSim ranks these.

MaxSim is the sum, over the query's vectors, of the highest similarity to a vector of the passage (Khattab and Zaharia
2020, "ColBERT", equation 3). The vectors are on disk in 16 bits, and their means in 32; both are read through memory
maps. The 16 bits are fixed-point, which NumPy turns into 32 twenty times as fast as half precision, and which is as
exact for unit vectors. A passage of a dense index has one vector, which is its mean, so that MaxSim is the cosine.

A mean is scaled to unit length times a power of the number of vectors, since a maximum over more vectors is higher:
of the ten best passages, the same number of candidates then holds more than by the means as they are.

A first pass in single precision selects passages; these are scored again in double precision, so that a hit's score
depends only on the query and the passage, and not on the batch, the filter or the thread.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.hub import one_thread
from knowgap.retrieval.index.passage_store import Positions
from knowgap.retrieval.minilm import unit

VECTORS, LENGTHS, MEANS = "tokens.i16", "lengths.i32", "means.npy"

_AT_ONCE = 1 << 13  # vectors; as many as fit into a CPU's cache in 32 bits
_COPIED_AT_ONCE = 1 << 16
_STEPS = 32_767  # of the fixed-point numbers from 0 to 1
_LEAST, _FACTOR, _POWER, _PER_HIT = 250, 0.8, 0.75, 5  # candidates: at least; of passages; for a hit that is asked for
_WITH_BONUS = 100  # candidates by their bonus
_LENGTH = 0.3  # the power of the number of vectors
_MARGIN = 1e-3  # exceeds the error of single precision on a sum of some hundred cosines


Block: TypeAlias = tuple[npt.NDArray[np.int16], npt.NDArray[np.integer]]
"""Vectors [vectors, dim] in fixed-point, passage after passage, and how many each passage has, [passages]."""


def fixed_point(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.int16]:
    """Unit vectors in 16 bits, as they are stored; any shape."""
    return np.rint(np.clip(vectors, -1, 1) * _STEPS).astype(np.int16)


class Vectors:
    """The vectors of passages, in the order of the passages.

    Args:
        vectors: unit vectors in fixed-point, [vectors, dim].
        lengths: how many vectors each passage has, [passages], each at least 1.
        means: the mean vector of each passage, float32 [passages, dim]; None computes them.
    """

    def __init__(
        self,
        vectors: npt.NDArray[np.int16],
        lengths: npt.NDArray[np.integer],
        means: npt.NDArray[np.float32] | None = None,
    ) -> None:
        self.vectors, self.lengths = vectors, np.asarray(lengths, dtype=np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])
        self.means = self._scaled_means() if means is None else means

    @classmethod
    def open(cls, folder: Path, dim: int) -> Vectors:
        """Map the files of a folder."""
        vectors = np.asarray(np.memmap(folder / VECTORS, dtype=np.int16, mode="r"))  # slices of a memmap take time
        lengths = np.fromfile(folder / LENGTHS, dtype=np.int32)
        return cls(vectors.reshape(-1, dim), lengths, np.load(folder / MEANS, mmap_mode="r", allow_pickle=False))

    @classmethod
    def write(cls, folder: Path, blocks: Iterable[Block], dim: int) -> None:
        """Write the vectors of passages, given some passages at a time, with their means.

        They follow those of a killed call, which are on disk before their lengths are written.
        """
        with (folder / VECTORS).open("ab") as vectors_file, (folder / LENGTHS).open("ab") as lengths_file:
            done = np.fromfile(folder / LENGTHS, dtype=np.int32)
            vectors_file.truncate(int(done.sum()) * 2 * dim)
            lengths_file.truncate(done.nbytes)
            for vectors, lengths in blocks:
                vectors_file.write(vectors.tobytes())
                vectors_file.flush()
                os.fsync(vectors_file.fileno())
                lengths_file.write(lengths.astype(np.int32).tobytes())
                lengths_file.flush()
        lengths = np.fromfile(folder / LENGTHS, dtype=np.int32)
        vectors = np.memmap(folder / VECTORS, dtype=np.int16, mode="r").reshape(-1, dim)
        np.save(folder / MEANS, cls(vectors, lengths).means)

    def __len__(self) -> int:
        return len(self.lengths)

    def of(self, positions: Positions) -> Block:
        """The vectors of some passages, and how many each has."""
        ends = self.starts[positions + 1].tolist()
        pieces = [self.vectors[a:b] for a, b in zip(self.starts[positions].tolist(), ends, strict=True)]
        return np.concatenate([self.vectors[:0], *pieces]), self.lengths[positions]

    def _scaled_means(self) -> npt.NDArray[np.float32]:
        sums = [np.empty((0, self.vectors.shape[1]), dtype=np.float32)]
        for _, own in portions([self], np.arange(len(self))):
            vectors, lengths = self.of(own)
            sums.append(np.add.reduceat(vectors.astype(np.float32), np.cumsum(lengths) - lengths, axis=0))
        return unit(np.concatenate(sums)) * (self.lengths**_LENGTH).astype(np.float32)[:, None]


def portions(
    parts: Sequence[Vectors], positions: Positions, most: int = _COPIED_AT_ONCE
) -> Iterator[tuple[Vectors, Positions]]:
    """Divide positions, ascending, that are counted through the segments of an index.

    A portion is of one segment, with the positions in it, and has at most `most` vectors, or one passage.
    """
    start = 0
    for part in parts:
        own = positions[(positions >= start) & (positions < start + len(part))] - start
        start, ends, first = start + len(part), np.cumsum(part.lengths[own]), 0
        while first < len(own):
            done = ends[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends, done + most, side="right")))
            yield part, own[first:last]
            first = last


def maxsim(
    parts: Sequence[Vectors], query: npt.NDArray[np.floating], positions: Positions, kind: type[np.floating]
) -> npt.NDArray[np.floating]:
    """The scores of some passages, ascending, for a query's vectors [vectors, dim], computed in a precision."""
    query = query.astype(kind) / kind(_STEPS)

    def score(portion: tuple[Vectors, Positions]) -> npt.NDArray[np.floating]:
        part, own = portion
        vectors, lengths = part.of(own)
        similarities = query @ vectors.astype(kind).T
        return np.maximum.reduceat(similarities, np.cumsum(lengths) - lengths, axis=1).sum(axis=0)

    scores = _threads(os.getpid()).map(score, portions(parts, positions, _AT_ONCE))
    return np.concatenate([np.empty(0, kind), *scores])


@functools.lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    """The threads of a process that score portions of passages; NumPy releases the interpreter's lock there."""
    return ThreadPoolExecutor(min(8, os.cpu_count() or 1), thread_name_prefix="knowgap-vectors")


def nearest(
    parts: Sequence[Vectors],
    query: npt.NDArray[np.float32],
    k: int,
    admitted: Positions,
    bonus: npt.NDArray[np.float32] | None = None,
) -> tuple[Positions, npt.NDArray[np.float64]]:
    """Score the passages that may be among the best for a query by MaxSim, or by MaxSim plus a bonus.

    Args:
        parts: the vectors of the segments of an index, through which positions are counted.
        query: its vectors, [vectors, dim].
        k: how many hits are asked for, from 1.
        admitted: the positions to search, ascending.
        bonus: a number from 0 for each passage, [passages]; those with the highest are candidates, too.

    Returns:
        Positions and scores of the `k` best candidates, and of all that tie with them.
    """
    added = np.zeros(sum(map(len, parts)), dtype=np.float32) if bonus is None else bonus
    with one_thread():
        rough = np.concatenate([part.means @ query.sum(axis=0) for part in parts])[admitted]
        rows = _best(rough, max(_LEAST, round(_FACTOR * len(admitted) ** _POWER), _PER_HIT * k))
        if bonus is not None:
            others = _best(bonus[admitted], max(_WITH_BONUS, k))
            candidates = np.zeros(len(admitted), dtype=bool)  # np.union1d would import numpy.ma
            candidates[rows] = candidates[others[bonus[admitted[others]] > 0]] = True
            rows = np.flatnonzero(candidates)
        chosen = admitted[rows]
        chosen = chosen[_best(maxsim(parts, query, chosen, np.float32) + added[chosen], k, _MARGIN)]
        return chosen, maxsim(parts, query, chosen, np.float64) + added[chosen].astype(np.float64)


def _best(scores: npt.NDArray[np.floating], count: int, margin: float = 0.0) -> npt.NDArray[np.int64]:
    """The rows of the `count` highest scores, and of those that are lower by no more than a margin; ascending."""
    if len(scores) <= count:
        return np.arange(len(scores))
    return np.flatnonzero(scores >= np.partition(scores, len(scores) - count)[len(scores) - count] - margin)
