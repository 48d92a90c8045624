"""Selection of candidates for exact scoring, by inverted lists over the centroids of token vectors.

These are the first stages of PLAID (Santhanam et al. 2022). Token vectors are clustered. A query probes the nearest
clusters of each of its tokens; the passages in them are scored by centroid interaction, which is MaxSim with every
token vector replaced by its centroid; and the best are then scored exactly. There are three differences from
colbert-ai's implementation. Clustering has two levels, which takes a twentieth of the time and costs half a point of
recall. Each centroid of a passage is stored once, so that centroid interaction needs no pruning stage before it. All
arrays are NumPy files, the large ones memory-mapped, that are searched without compiled extensions.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.colbert.maxsim import TokenVectors, Vectors, runs
from knowgap.retrieval.portions import ArrayFile, Portions
from knowgap.storage.progress import Progress, no_progress

CENTROIDS, CELLS, CODES = "centroids.npy", "cells.npy", "codes.npy"
CELL_STARTS, CODE_STARTS, TOKEN_CODES = "cells.starts.npy", "codes.starts.npy", "tokens.codes.npy"

_SAMPLES_PER_CENTROID = 40
_MOST_SAMPLES = 1 << 22
_ROOTS_PROBED = 2
_TOKENS_AT_ONCE = 1 << 15
_PAIRS_AT_ONCE = 1 << 22  # pairs of a passage and a centroid
_NEGLIGIBLE = 0.02  # a query vector this short, of a token in every passage, does not help to choose candidates
_SEED = 20220519
_THREADS = min(8, os.cpu_count() or 1)


@functools.lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    """The threads of a process that score candidates, each for some tokens of a query; NumPy releases the GIL there."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="knowgap-candidates")


class CentroidIndex:
    """Centroids, with the passages that have a token in the cluster of each, and the centroids of each passage.

    Args:
        centroids: [centroids, dim].
        cells: the passages of each cluster, cluster after cluster.
        cell_starts: where those of each cluster begin, [centroids + 1].
        codes: the centroids of each passage, passage after passage.
        code_starts: where those of each passage begin, [passages + 1].
    """

    def __init__(
        self,
        centroids: npt.NDArray[np.float32],
        cells: npt.NDArray[np.integer],
        cell_starts: npt.NDArray[np.int64],
        codes: npt.NDArray[np.integer],
        code_starts: npt.NDArray[np.int64],
    ) -> None:
        self.centroids, self._cells, self._cell_starts = centroids, cells, cell_starts
        self._codes, self._code_starts = codes, code_starts

    @classmethod
    def open(cls, folder: Path) -> CentroidIndex:
        """Map the files of a folder."""
        centroids = np.load(folder / CENTROIDS, allow_pickle=False)
        cells, codes = (np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in (CELLS, CODES))
        cell_starts, code_starts = (np.load(folder / n, allow_pickle=False) for n in (CELL_STARTS, CODE_STARTS))
        return cls(centroids, cells, cell_starts, codes, code_starts)

    @classmethod
    def build(cls, vectors: TokenVectors, folder: Path, progress: Progress = no_progress) -> CentroidIndex:
        """Cluster token vectors and write the index; the centroid of every token is written to `tokens.codes.npy`.

        The number of centroids is that of PLAID: 16 times the square root of the number of vectors, rounded down to a
        power of two, but at most a quarter of the number of vectors. The same vectors give the same centroids. Only the
        sample from which the centroids are made has to fit into memory.
        """
        total = len(vectors.vectors)
        count = centroid_count(total)
        progress(0, total, "clustering token vectors")
        roots, centroids, starts = _cluster(vectors.vectors, count)
        np.save(folder / CENTROIDS, centroids)
        lists, sizes = Portions(folder, len(centroids), [np.int32]), []
        try:
            with ArrayFile(folder / TOKEN_CODES, np.int32) as token_codes, ArrayFile(folder / CODES, np.int32) as codes:
                for first, last in _passages_at_once(vectors.starts):
                    span, start, end = last - first, int(vectors.starts[first]), int(vectors.starts[last])
                    nearest = np.empty(end - start, dtype=np.int64)
                    for at in range(start, end, _TOKENS_AT_ONCE):
                        block = np.asarray(vectors.vectors[at : min(at + _TOKENS_AT_ONCE, end)], dtype=np.float32)
                        nearest[at - start :][: len(block)] = _nearest(block, roots, centroids, starts)
                        progress(at + len(block), total, "clustering token vectors")
                    token_codes.write(nearest)
                    nearest += np.repeat(np.arange(span) * len(centroids), vectors.lengths[first:last])
                    passages, codes_of = np.divmod(np.unique(nearest), len(centroids))
                    codes.write(codes_of)
                    sizes.append(np.bincount(passages, minlength=span))
                    order = np.argsort(codes_of, kind="stable")
                    distinct, counts = np.unique(codes_of, return_counts=True)
                    lists.write(distinct, counts, passages[order] + first)
            np.save(folder / CODE_STARTS, np.cumsum(np.concatenate([[0], *sizes])))
            lengths = np.zeros(len(centroids) + 1, dtype=np.int64)
            with ArrayFile(folder / CELLS, np.int32) as cells:
                for _, found, counts, (passages,) in lists.merge(_PAIRS_AT_ONCE):
                    lengths[found.astype(np.int64) + 1] = counts
                    cells.write(passages)
            np.save(folder / CELL_STARTS, np.cumsum(lengths))
        finally:
            lists.remove()
        return cls.open(folder)

    def candidates(
        self,
        query: npt.NDArray[np.float32],
        nprobe: int,
        limit: int,
        allowed: npt.NDArray[np.int64] | None = None,
        without: npt.NDArray[np.int64] | None = None,
    ) -> npt.NDArray[np.int64]:
        """Select passages that may be among the best; their positions are ascending.

        Args:
            query: token vectors, [tokens, dim].
            nprobe: how many clusters each token probes, from 1.
            limit: how many passages are returned at most, the best by centroid interaction.
            allowed: consider only these positions, ascending.
            without: leave out these positions.
        """
        import torch

        relevant = np.linalg.norm(query, axis=1) > _NEGLIGIBLE
        if relevant.any():
            query = query[relevant]
        # NumPy's product is avoided: its threads spin for a while afterwards, and torch's threads would wait for them.
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
            cut = np.partition(rough, len(rough) - limit)[len(rough) - limit]
            # Many tie at the cut; which of them a partial sort takes depends on the processor.
            chosen, tied = rough > cut, np.flatnonzero(rough == cut)
            chosen[tied[: limit - int(chosen.sum())]] = True
            positions = positions[chosen]
        return positions

    def _interaction(self, scores: npt.NDArray[np.float32], positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """The centroid interaction of some passages, up to scale and shift. [positions].

        The scores of centroids, [tokens, centroids], are rounded to 256 steps, so that the table of one token stays in
        the processor's L1 cache; this loses no candidate worth keeping.
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
        for part in _threads(os.getpid()).map(score, np.array_split(steps, _THREADS)):
            total += part
        return total

    def __len__(self) -> int:
        return len(self.centroids)


def centroid_count(tokens: int) -> int:
    """The number of centroids for a number of token vectors."""
    return min(1 << int(np.log2(16 * np.sqrt(tokens))), max(1, tokens // 4))


def sample_size(tokens: int) -> int:
    """The number of token vectors that are sampled to make the centroids."""
    return min(tokens, centroid_count(tokens) * _SAMPLES_PER_CENTROID, _MOST_SAMPLES)


def _passages_at_once(starts: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges of passages, as first and last + 1, with at most `_PAIRS_AT_ONCE` tokens or a single passage."""
    first = 0
    while first < len(starts) - 1:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + _PAIRS_AT_ONCE, side="right")) - 1)
        yield first, last
        first = last


def _cluster(
    vectors: Vectors, count: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Spherical k-means in two levels: about √count roots, each with centroids in proportion to its vectors.

    Returns:
        The roots, [roots, dim]; the unit centroids, root after root, [about count, dim]; and where the centroids of
        each root begin, [roots + 1].
    """
    rng, size = np.random.default_rng(_SEED), sample_size(len(vectors))
    # One row is drawn from each of `size` equal ranges, since a draw without replacement needs memory for all rows.
    rows = ((np.arange(size) + rng.random(size)) * (len(vectors) / size)).astype(np.int64)
    sample = vectors[np.minimum(rows, len(vectors) - 1)]
    count_of_roots = max(1, round(np.sqrt(count)))
    training = sample[np.linspace(0, size - 1, min(size, 256 * count_of_roots)).astype(np.int64)]
    roots = _kmeans(training.astype(np.float32), count_of_roots, 8)
    owner = np.empty(size, dtype=np.int32)
    for first in range(0, size, _TOKENS_AT_ONCE):
        block = sample[first : first + _TOKENS_AT_ONCE].astype(np.float32)
        owner[first : first + len(block)] = (block @ roots.T).argmax(axis=1)
    groups = []
    for root in range(len(roots)):
        owned = sample[owner == root].astype(np.float32)
        size_of_group = max(1, int(len(owned) / size * count))
        groups.append(_kmeans(owned, min(size_of_group, len(owned)), 4) if len(owned) else owned)
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
    """The nearest centroid for each vector, among the centroids of its nearest roots. [vectors]."""
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
