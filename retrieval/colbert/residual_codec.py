"""Compression of clustered token vectors to a centroid and a few bits per dimension, by colbert-ai's codec.

Santhanam et al. 2022, "ColBERTv2", section 3.3. The codec's buckets are quantiles of the differences between sampled
vectors and their centroids. Codes and residuals are in NumPy files, and vectors are decompressed when they are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.colbert.inverted_lists import CENTROIDS, TOKEN_CODES, CentroidIndex
from knowgap.retrieval.colbert.maxsim import TokenVectors, Vectors
from knowgap.retrieval.colbert.stock_runtime import colbert
from knowgap.retrieval.portions import ArrayFile
from knowgap.storage.progress import Progress, no_progress

RESIDUALS, BUCKETS = "tokens.residuals.npy", "buckets.npy"

_WORTH_CLUSTERING = 400_000  # vectors; scoring all of fewer is faster than selecting candidates
_SAMPLE = 50_000
_TOKENS_AT_ONCE = 1 << 16


def cluster(folder: Path, dim: int, nbits: int, clustered: bool | None, progress: Progress) -> None:
    """Cluster the token vectors in a folder, and compress them if `nbits` < 16; `tokens.f16` stays.

    Compressed vectors are always clustered. If `clustered` is None, others are if there are 400,000 or more.
    """
    tokens = TokenVectors.open(folder, dim)
    if clustered or nbits < 16 or (clustered is None and len(tokens.vectors) >= _WORTH_CLUSTERING):
        centroids = CentroidIndex.build(tokens, folder, progress).centroids
        if nbits < 16:
            ResidualVectors.build(tokens.vectors, centroids, nbits, folder, progress)
        else:
            (folder / TOKEN_CODES).unlink()


def open_vectors(folder: Path, dim: int, nbits: int, device: str) -> tuple[TokenVectors, CentroidIndex | None]:
    """Open the token vectors in a folder, and their centroids if they are clustered.

    Raises:
        IndexDamaged: see `TokenVectors.open`.
    """
    centroids = CentroidIndex.open(folder) if (folder / CENTROIDS).exists() else None
    compressed = None
    if centroids is not None and nbits < 16:
        compressed = ResidualVectors.open(folder, centroids.centroids, nbits)
    return TokenVectors.open(folder, dim, vectors=compressed, device=device), centroids


class ResidualVectors:
    """An array of compressed token vectors, [tokens, dim], whose rows are decompressed when they are indexed.

    Args:
        codes: the centroid of each vector, [tokens].
        residuals: the compressed residual of each vector, [tokens, dim * bits / 8] bytes.
        codec: the result of `residual_codec`.
    """

    def __init__(self, codes: npt.NDArray[np.integer], residuals: npt.NDArray[np.uint8], codec: Any) -> None:
        self._codes, self._residuals, self._codec = codes, residuals, codec
        self.shape = (len(codes), int(codec.dim))

    @classmethod
    def open(cls, folder: Path, centroids: npt.NDArray[np.float32], nbits: int) -> ResidualVectors:
        """Map the files of a folder."""
        codes = np.load(folder / TOKEN_CODES, mmap_mode="r", allow_pickle=False)
        residuals = np.load(folder / RESIDUALS, mmap_mode="r", allow_pickle=False)
        buckets = np.load(folder / BUCKETS, allow_pickle=False)
        # Quantiles 1/2n, 2/2n, …: the odd ones are the values of the buckets, the even ones the cuts between them.
        return cls(codes, residuals, residual_codec(centroids, nbits, buckets[1::2], buckets[0::2]))

    @staticmethod
    def build(
        vectors: Vectors, centroids: npt.NDArray[np.float32], nbits: int, folder: Path, progress: Progress = no_progress
    ) -> None:
        """Compress vectors to 1, 2 or 4 bits per dimension, in the folder where `CentroidIndex` clustered them."""
        import torch

        codes = np.load(folder / TOKEN_CODES, mmap_mode="r", allow_pickle=False)
        sample = np.unique(np.linspace(0, len(vectors) - 1, min(len(vectors), _SAMPLE)).astype(np.int64))
        differences = vectors[sample].astype(np.float32) - centroids[codes[sample]]
        options = 2**nbits
        buckets = np.quantile(differences, np.arange(1, 2 * options) / (2 * options)).astype(np.float32)
        np.save(folder / BUCKETS, buckets)
        codec = residual_codec(centroids, nbits, buckets[1::2], buckets[0::2])
        with ArrayFile(folder / RESIDUALS, np.uint8, vectors.shape[1] * nbits // 8) as file:
            for first in range(0, len(vectors), _TOKENS_AT_ONCE):
                progress(first, len(vectors), "compressing token vectors")
                rows = slice(first, first + _TOKENS_AT_ONCE)
                difference = vectors[rows].astype(np.float32) - centroids[codes[rows]]
                file.write(codec.binarize(torch.from_numpy(difference)).numpy())
        progress(len(vectors), len(vectors), "compressing token vectors")

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> npt.NDArray[np.float16]:
        import torch
        from colbert.indexing.codecs.residual_embeddings import ResidualEmbeddings

        compressed = ResidualEmbeddings(
            torch.from_numpy(np.array(self._codes[rows])), torch.from_numpy(np.array(self._residuals[rows]))
        )
        return self._codec.decompress(compressed).half().numpy()


def residual_codec(
    centroids: npt.NDArray[np.float32], nbits: int, cuts: npt.NDArray[np.float32], values: npt.NDArray[np.float32]
) -> Any:
    """colbert-ai's codec for residuals of `nbits` bits, which encode the `values` of buckets between the `cuts`."""
    import torch

    colbert()
    from colbert.indexing.codecs.residual import ResidualCodec
    from colbert.infra.config import ColBERTConfig

    config = ColBERTConfig(dim=centroids.shape[1], nbits=nbits)
    config.total_visible_gpus = 0  # otherwise the codec compiles CUDA code on a machine with a GPU
    cutoffs, weights = torch.from_numpy(cuts.copy()), torch.from_numpy(values.copy())
    return ResidualCodec(config, torch.from_numpy(centroids), None, cutoffs, weights)
