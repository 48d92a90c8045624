"""Estimate how large an index becomes, from what the passages of a small index take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from knowgap.errors import UsageError, ValueOutOfBounds
from knowgap.retrieval.colbert.checkpoint import EMBEDDED, FULL_WIDTH, PROJECTED, WIDTH
from knowgap.retrieval.colbert.maxsim import LENGTHS
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import PassageStore

_SAMPLE = 2000  # passages whose words are counted, evenly spaced over the index
_STORE = 3 * 8 + 16  # bytes of a passage besides its text: where it starts, and its entry among the ids
_QDRANT_RESERVE = 1.5  # for indexes, point versions and temporary segments: Qdrant's guide to capacity planning


@dataclass(frozen=True)
class PassageSize:
    """What one passage takes, on average over the `passages` that were measured."""

    passages: int
    tokens: float  # token vectors
    words: float  # distinct words, as BM25 counts them
    text: float  # bytes of id, title and text
    dim: int  # width of a token vector
    narrows: bool  # whether it is the embedded checkpoint's full width, which a large corpus does not get


@dataclass(frozen=True)
class IndexSize:
    """What an index takes on disk, without its checkpoint, and in memory, so that searches need not wait for a disk."""

    passages: int
    engine: str  # and the form of its vectors
    vectors: int  # 0 for BM25
    disk: int  # bytes
    memory: int  # bytes


def measure_passages(path: str | Path) -> PassageSize:
    """Measure the passages of an index.

    Args:
        path: the folder of a ColBERT index, or of a hybrid one with ColBERT in it. Later additions are not counted.

    Raises:
        IndexMissing, IndexForeign, IndexDamaged: see `Manifest.read`.
        UsageError: an index without token vectors.
    """
    from knowgap.retrieval.bm25 import Analyzer

    path = Path(path)
    manifest = Manifest.read(path)
    if manifest.engine == "hybrid" and "colbert" in manifest.settings["parts"]:
        return measure_passages(path / "colbert")
    if manifest.engine != "colbert":
        raise UsageError(
            f"{path}: an index of the engine {manifest.engine!r}, which keeps no token vectors to count; "
            "name a ColBERT index of some thousand of your passages"
        )
    folder = path / manifest.segments[0].name
    store, lengths = PassageStore(folder), np.load(folder / LENGTHS, mmap_mode="r", allow_pickle=False)
    analyze = Analyzer("english")
    sample = [store[i] for i in range(0, len(store), max(1, len(store) // _SAMPLE))]
    return PassageSize(
        passages=len(store),
        tokens=float(lengths.mean()),
        words=float(np.mean([len({*analyze(passage.title), *analyze(passage.text)}) for passage in sample])),
        text=store.text_bytes / len(store),
        dim=manifest.settings["dim"],
        narrows=manifest.checkpoint["name"] == EMBEDDED and manifest.settings["dim"] == WIDTH,
    )


def estimate_sizes(sample: PassageSize, passages: int) -> list[IndexSize]:
    """Estimate what indexes of more passages of the same kind take.

    - BM25: 8 bytes per distinct word of a passage; in memory, the scores of all passages.
    - Dense, at the width of the embedded encoder: 2 bytes per dimension, all of them read by a search.
    - ColBERT: 2 bytes per dimension of a token vector, or a quarter of a byte and the number of a centroid; and per
      vector at most 8 bytes that say which passages are near which centroid. In memory: the centroids, as many as PLAID
      has, and 24 bytes per passage; vectors are read from the disk when they are needed.
    - Qdrant: on disk, the token vectors in 2 bytes per dimension and the texts; on disk and in memory, a pooled vector
      per passage in 4 bytes per dimension; and half as much again of everything. For all nodes together, with one copy
      of everything and with two.

    Raises:
        ValueOutOfBounds: passages below 1.
    """
    if passages < 1:
        raise ValueOutOfBounds(f"passages = {passages!r}: must be at least 1")
    dim = PROJECTED if sample.narrows and passages > FULL_WIDTH else sample.dim
    tokens = math.ceil(passages * sample.tokens)
    text = passages * sample.text
    store = text + passages * _STORE
    centroids = min(1 << int(math.log2(16 * math.sqrt(tokens))), max(1, tokens // 4))
    inverted_lists = 8 * tokens + centroids * (4 * dim + 8) + 8 * passages
    colbert_memory = centroids * (4 * dim + 8) + 24 * passages
    colbert_other = inverted_lists + 4 * passages + store
    bm25_memory = 12 * passages  # in single precision, and again in double
    dense = passages * 2 * WIDTH
    rows: list[tuple[str, int, float, float]] = [
        ("bm25", 0, 8 * passages * sample.words + store, bm25_memory),
        (f"dense, {WIDTH} wide", passages, dense + 4 * passages + store, dense),
        (f"colbert, {dim} wide, 16 bits", tokens, tokens * 2 * dim + colbert_other, colbert_memory),
        (f"colbert, {dim} wide, 2 bits", tokens, tokens * (dim / 4 + 4) + colbert_other, colbert_memory),
    ]
    pooled = _QDRANT_RESERVE * passages * 4 * dim
    copy = _QDRANT_RESERVE * (tokens * 2 * dim + text) + pooled
    for copies in (1, 2):
        name = f"qdrant, {dim} wide, {copies} {'copy' if copies == 1 else 'copies'}"
        rows.append((name, tokens, copies * copy, copies * pooled))
    return [IndexSize(passages, name, count, math.ceil(disk), math.ceil(memory)) for name, count, disk, memory in rows]
