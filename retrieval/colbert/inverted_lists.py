"""Candidates for exact scoring, by inverted lists over the centroids of token vectors.

These are the first stages of PLAID (Santhanam et al. 2022): token vectors are clustered; a query probes the nearest
clusters of each of its tokens; the passages in them are scored by centroid interaction, MaxSim with every token vector
replaced by its centroid; the best are scored exactly. There are three differences from colbert-ai's implementation.
Clustering is in two levels, which takes a twentieth of the time and costs half a point of recall. Each centroid of a
passage is stored once, so centroid interaction needs no pruning stage before it. All arrays are memory-mapped NumPy
files, searched without compiled extensions.
"""

from __future__ import annotations

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowgap.errors import IndexDamaged
from knowgap.retrieval.colbert.maxsim import TokenVectors, Vectors, runs
from knowgap.storage.progress import Progress, no_progress

CENTROIDS, CELLS, CODES = "centroids.npy", "cells.npy", "codes.npy"
CELL_STARTS, CODE_STARTS, TOKEN_CODES = "cells.starts.npy", "codes.starts.npy", "tokens.codes.npy"

_SAMPLES_PER_CENTROID = 40
_MOST_SAMPLES = 1 << 22
_ROOTS_PROBED = 2
_TOKENS_AT_ONCE = 1 << 17
_NEGLIGIBLE = 0.02  # a query vector this short, of a token in every passage, does not help to choose candidates
_SEED = 20220519
_THREADS = min(8, os.cpu_count() or 1)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """Threads that score candidates, each for some tokens of a query; NumPy releases the GIL meanwhile."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="knowgap-candidates")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # a forked process has none of the threads


class CentroidIndex:
    """Centroids, the passages with a token in the cluster of each, and the centroids of each passage."""

    def __init__(self, folder: Path) -> None:
        try:
            self.centroids: npt.NDArray[np.float32] = np.load(folder / CENTROIDS, allow_pickle=False)
            self._cells, self._codes = (
                np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in (CELLS, CODES)
            )
            self._cell_starts, self._code_starts = (
                np.load(folder / name, allow_pickle=False) for name in (CELL_STARTS, CODE_STARTS)
            )
        except (OSError, ValueError) as error:
            raise IndexDamaged(f"{folder}: centroids cannot be read ({error}); build the index again") from error
        if len(self._cell_starts) != len(self.centroids) + 1 or self._cell_starts[-1] != len(self._cells):
            raise IndexDamaged(f"{folder}: {CELLS} does not fit {CENTROIDS}; build the index again")

    @classmethod
    def build(cls, vectors: TokenVectors, folder: Path, progress: Progress = no_progress) -> CentroidIndex:
        """Cluster token vectors and write the index; the centroid of every token goes to `tokens.codes.npy`.

        The number of centroids is that of PLAID: 16 times the square root of the number of vectors, rounded down to a
        power of two. The same vectors give the same centroids.
        """
        total = len(vectors.vectors)
        count = min(1 << int(np.log2(16 * np.sqrt(total))), max(1, total // 4))
        progress(0, total, "clustering token vectors")
        roots, centroids, starts = _cluster(vectors.vectors, count)
        codes = np.empty(total, dtype=np.int32)
        for first in range(0, total, _TOKENS_AT_ONCE):
            block = np.asarray(vectors.vectors[first : first + _TOKENS_AT_ONCE], dtype=np.float32)
            codes[first : first + len(block)] = _nearest(block, roots, centroids, starts)
            progress(first + len(block), total, "clustering token vectors")
        passages = np.repeat(np.arange(len(vectors), dtype=np.int64), vectors.lengths)
        for major, minor, size, names in (
            (codes.astype(np.int64), passages, len(centroids), (CELLS, CELL_STARTS)),
            (passages, codes.astype(np.int64), len(vectors), (CODES, CODE_STARTS)),
        ):
            span = int(minor.max()) + 1
            pairs = np.unique(major * span + minor)
            np.save(folder / names[0], (pairs % span).astype(np.int32))
            np.save(folder / names[1], np.searchsorted(pairs // span, np.arange(size + 1)))
        np.save(folder / TOKEN_CODES, codes)
        np.save(folder / CENTROIDS, centroids)
        return cls(folder)

    def candidates(
        self,
        query: npt.NDArray[np.float32],
        nprobe: int,
        limit: int,
        allowed: npt.NDArray[np.int64] | None = None,
        without: npt.NDArray[np.int64] | None = None,
    ) -> npt.NDArray[np.int64]:
        """Passages that may be among the best.

        Args:
            query: token vectors, [tokens, dim].
            nprobe: how many clusters each token probes, from 1.
            limit: how many passages at most, the best by centroid interaction.
            allowed: consider only these positions, ascending.
            without: leave out these positions.

        Returns:
            Positions, ascending.
        """
        import torch

        relevant = np.linalg.norm(query, axis=1) > _NEGLIGIBLE
        if relevant.any():
            query = query[relevant]
        # Not NumPy's product: its threads keep spinning for a while, and torch's threads would wait for them.
        scores = torch.from_numpy(np.array(query)) @ torch.from_numpy(self.centroids).T
        probed = np.unique(torch.topk(scores, min(nprobe, len(self)), sorted=False).indices.numpy())
        starts = self._cell_starts[probed]
        inside = np.zeros(len(self._code_starts) - 1, dtype=bool)
        inside[self._cells[runs(starts, self._cell_starts[probed + 1] - starts)]] = True
        if without is not None:
            inside[without] = False
        positions = np.flatnonzero(inside) if allowed is None else allowed[inside[allowed]]
        if len(positions) > limit:
            rough = self._interaction(scores.numpy(), positions)
            positions = np.sort(positions[np.argpartition(rough, len(rough) - limit)[len(rough) - limit :]])
        return positions

    def _interaction(self, scores: npt.NDArray[np.float32], positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """MaxSim of some passages, their vectors replaced by centroids, up to scale and shift. [positions].

        Scores of centroids, [tokens, centroids], are rounded to 256 steps, so that the table of one token stays in
        the processor's nearest cache; that loses no candidate worth keeping.
        """
        lowest = scores.min()
        steps = ((scores - lowest) * (255 / max(float(scores.max() - lowest), 1e-9))).astype(np.uint8)
        starts = self._code_starts[positions]
        lengths = self._code_starts[positions + 1] - starts
        codes, cuts = self._codes[runs(starts, lengths)].astype(np.int64), np.cumsum(lengths) - lengths

        def score(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
            sums = np.zeros(len(positions), dtype=np.int32)
            for row in rows:
                sums += np.maximum.reduceat(row.take(codes), cuts)
            return sums

        total = np.zeros(len(positions), dtype=np.int32)
        for part in _threads().map(score, np.array_split(steps, _THREADS)):
            total += part
        return total

    def __len__(self) -> int:
        return len(self.centroids)


def _cluster(
    vectors: Vectors, count: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Spherical k-means in two levels: about √count roots, each with centroids in proportion to its vectors.

    Returns:
        Roots [roots, dim]; unit centroids [about count, dim], root after root; where those of each root begin
        [roots + 1].
    """
    rng = np.random.default_rng(_SEED)
    size = min(len(vectors), count * _SAMPLES_PER_CENTROID, _MOST_SAMPLES)
    sample = np.asarray(vectors[np.sort(rng.choice(len(vectors), size, replace=False))], dtype=np.float32)
    roots = _kmeans(sample, max(1, round(np.sqrt(count))), 8)
    owner = (sample @ roots.T).argmax(axis=1)
    groups = []
    for root in range(len(roots)):
        owned = sample[owner == root]
        size = max(1, int(len(owned) / len(sample) * count))
        groups.append(_kmeans(owned, min(size, len(owned)), 4) if len(owned) else owned)
    starts = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
    return roots, np.concatenate(groups), starts


def _kmeans(vectors: npt.NDArray[np.float32], count: int, rounds: int) -> npt.NDArray[np.float32]:
    import faiss

    if count >= len(vectors):
        return vectors
    means = faiss.Kmeans(
        vectors.shape[1], count, niter=rounds, seed=_SEED, spherical=True, min_points_per_centroid=1, verbose=False
    )
    means.train(np.ascontiguousarray(vectors))
    return np.asarray(means.centroids, dtype=np.float32)


def _nearest(
    block: npt.NDArray[np.float32],
    roots: npt.NDArray[np.float32],
    centroids: npt.NDArray[np.float32],
    starts: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """For each vector, the nearest centroid of its nearest roots. [vectors]."""
    probes = min(_ROOTS_PROBED, len(roots))
    tried = np.argpartition(block @ roots.T, len(roots) - probes, axis=1)[:, len(roots) - probes :].ravel()
    order = np.argsort(tried, kind="stable")
    edges = np.searchsorted(tried[order], np.arange(len(roots) + 1))
    best, nearest = np.full(len(block), -np.inf, dtype=np.float32), np.zeros(len(block), dtype=np.int64)
    for root in range(len(roots)):
        rows = order[edges[root] : edges[root + 1]] // probes
        if not len(rows) or starts[root] == starts[root + 1]:
            continue
        similarity = block[rows] @ centroids[starts[root] : starts[root + 1]].T
        winner = similarity.argmax(axis=1)
        value = similarity[np.arange(len(rows)), winner]
        better = value > best[rows]
        best[rows[better]] = value[better]
        nearest[rows[better]] = winner[better] + starts[root]
    return nearest
