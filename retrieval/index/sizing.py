"""Estimates of the size of a large index from the passages of a small one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from knowgap.errors import ValueOutOfBounds
from knowgap.retrieval.colbert.checkpoint import EMBEDDED, FULL_WIDTH, PROJECTED, WIDTH
from knowgap.retrieval.colbert.inverted_lists import centroid_count, sample_size
from knowgap.retrieval.colbert.maxsim import LENGTHS
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import PassageStore

_SAMPLE = 2000  # passages whose words are counted, evenly spaced over the index
_STORE = 3 * 8 + 16  # bytes of a passage besides its text: its offsets, and its entry among the ids

# Bytes of memory of a build: a constant part, and a part for each passage.
_BASE, _STORING, _ENCODING = 120 << 20, 60, 64
_WORDS, _WEIGHING = 420 << 20, 52  # portions of words; and lengths, and the list of a word that is in every passage
_CLUSTERING, _CLUSTERING_EACH = 140 << 20, 40  # without the sample: portions of vectors and of the lists

_QDRANT_RESERVE = 1.5  # for indexes, point versions and temporary segments: Qdrant's guide to capacity planning


@dataclass(frozen=True)
class PassageSize:
    """The average size of a passage, over the `passages` that were measured."""

    passages: int
    tokens: float  # token vectors, 0 if there are none
    words: float  # distinct words, as BM25 counts them
    text: float  # bytes of id, title and text
    dim: int  # width of a token vector
    narrows: bool  # whether it is the full width of the embedded checkpoint, which is narrower for a large corpus


@dataclass(frozen=True)
class IndexSize:
    """The size of an index on disk, without its checkpoint, and the memory for searches that do not wait for a disk.

    `build_disk` is what its build takes on this machine for the unfinished index and temporary files, and
    `build_memory` is the memory of the build without the encoder, which only grows by some dozen bytes per passage.
    """

    passages: int
    engine: str  # the engine and the form of its vectors
    vectors: int  # 0 for BM25
    disk: int  # bytes
    memory: int  # bytes
    build_disk: int  # bytes
    build_memory: int  # bytes


def measure_passages(path: str | Path) -> PassageSize:
    """Measure the passages of an index, without later additions.

    Token vectors are counted if it is a ColBERT index, or a hybrid one with ColBERT in it, and are 0 for others.

    Raises:
        IndexMissing, IndexForeign, IndexDamaged: see `Manifest.read`.
    """
    from knowgap.retrieval.bm25 import Analyzer

    path = Path(path)
    manifest = Manifest.read(path)
    if manifest.engine == "hybrid":
        parts = manifest.settings["parts"]
        return measure_passages(path / ("colbert" if "colbert" in parts else parts[0]))
    folder, has_tokens = path / manifest.segments[0].name, manifest.engine == "colbert"
    store, analyze = PassageStore(folder), Analyzer("english")
    lengths = np.load(folder / LENGTHS, mmap_mode="r", allow_pickle=False) if has_tokens else np.zeros(1)
    sample = [store[i] for i in range(0, len(store), max(1, len(store) // _SAMPLE))]
    return PassageSize(
        passages=len(store),
        tokens=float(lengths.mean()),
        words=float(np.mean([len({*analyze(passage.title), *analyze(passage.text)}) for passage in sample])),
        text=store.text_bytes / len(store),
        dim=manifest.settings["dim"] if has_tokens else 0,
        narrows=has_tokens and manifest.checkpoint["name"] == EMBEDDED and manifest.settings["dim"] == WIDTH,
    )


def estimate_sizes(sample: PassageSize, passages: int) -> list[IndexSize]:
    """Estimate the sizes of indexes of more such passages; without token vectors, of BM25 and dense ones only.

    - BM25: 8 bytes per distinct word of a passage; in memory, the scores of all passages.
    - Dense, at the width of the embedded encoder: 2 bytes per dimension, all of them read by a search.
    - ColBERT: 2 bytes per dimension of a token vector, or a quarter of a byte and the number of a centroid; and per
      vector at most 8 bytes that say which passages are near which centroid. In memory: the centroids, as many as PLAID
      has, and 24 bytes per passage; vectors are read from disk when they are needed.
    - Qdrant: on disk, the token vectors in 2 bytes per dimension and the texts; on disk and in memory, a pooled vector
      per passage in 4 bytes per dimension; and half as much again of everything. For all nodes together, with one copy
      of everything and with two.

    Raises:
        ValueOutOfBounds: passages below 1.
    """
    if passages < 1:
        raise ValueOutOfBounds(f"passages = {passages!r}: must be at least 1")
    store = passages * (sample.text + _STORE)
    storing = _BASE + passages * _STORING
    encoding = _BASE + passages * _ENCODING
    bm25, dense = 8 * passages * sample.words + store, passages * 2 * WIDTH
    bm25_memory = 12 * passages  # the sum of scores of each passage, and the passages found with their scores
    weighing = _WORDS + passages * _WEIGHING
    dense_disk = dense + 4 * passages + store
    rows: list[tuple[str, int, float, float, float, float]] = [
        ("bm25", 0, bm25, bm25_memory, bm25 + 6 * passages * sample.words, max(storing, weighing)),
        (f"dense, {WIDTH} wide", passages, dense_disk, dense, dense_disk, encoding),
    ]
    if sample.tokens:
        dim = PROJECTED if sample.narrows and passages > FULL_WIDTH else sample.dim
        tokens, text = math.ceil(passages * sample.tokens), passages * sample.text
        centroids = centroid_count(tokens)
        other = 8 * tokens + centroids * (4 * dim + 8) + 12 * passages + store
        memory = centroids * (4 * dim + 8) + 24 * passages
        clustering = (
            _CLUSTERING + passages * _CLUSTERING_EACH + sample_size(tokens) * (2 * dim + 12) + centroids * 8 * dim
        )
        building = tokens * 2 * dim + other + 8 * tokens  # with the temporary lists, and the centroid of each token
        for bits, vectors in ((16, tokens * 2 * dim), (2, tokens * (dim / 4 + 4))):
            whole = building + (vectors if bits < 16 else 0)
            form = f"colbert, {dim} wide, {bits} bits"
            rows.append((form, tokens, vectors + other, memory, whole, max(encoding, clustering)))
        pooled = _QDRANT_RESERVE * passages * 4 * dim
        copy = _QDRANT_RESERVE * (tokens * 2 * dim + text) + pooled
        for copies in (1, 2):
            name = f"qdrant, {dim} wide, {copies} {'copy' if copies == 1 else 'copies'}"
            rows.append((name, tokens, copies * copy, copies * pooled, store, storing))
    return [IndexSize(passages, name, count, *map(math.ceil, figures)) for name, count, *figures in rows]
