"""How large an index becomes: what a passage takes, measured on an index of some of them, times how many there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from knowgap.errors import IndexDamaged, UsageError, ValueOutOfBounds
from knowgap.retrieval.colbert.checkpoint import EMBEDDED, FULL_WIDTH, PROJECTED, WIDTH
from knowgap.retrieval.colbert.maxsim import LENGTHS
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import PassageStore

__all__ = ["IndexSize", "PassageSize", "estimate_sizes", "measure_passages"]

_READ = 2000  # passages whose words are counted, spread evenly over the index
_STORE = 3 * 8 + 16  # bytes for a passage besides its text: where it starts, and its place among the ids
_QDRANT_SPARE = 1.5  # for indexes, point versions and temporary segments, as Qdrant's guide to capacity planning says


@dataclass(frozen=True)
class PassageSize:
    """What one passage takes, on average.

    Attributes:
        passages: how many it was measured on.
        tokens: token vectors.
        words: different words, as BM25 counts them.
        text: bytes of id, title and text.
        dim: width of a token vector.
        narrows: whether the embedded checkpoint encoded it, at the width that is not kept for a large corpus.
    """

    passages: int
    tokens: float
    words: float
    text: float
    dim: int
    narrows: bool


@dataclass(frozen=True)
class IndexSize:
    """What an index takes.

    Attributes:
        passages: how many it has.
        engine: of which kind it is.
        vectors: how many vectors it has; 0 for BM25.
        disk: bytes on disk; the checkpoint, less than 100 MB, comes on top.
        memory: bytes of memory that searches need so as not to wait for the disk at every step.
    """

    passages: int
    engine: str
    vectors: int
    disk: int
    memory: int


def measure_passages(path: str | Path) -> PassageSize:
    """Measure the passages of an index.

    Args:
        path: the folder of a ColBERT index, or of a hybrid one with ColBERT in it, as it was built; later additions
            are not counted.

    Raises:
        IndexMissing, IndexForeign, IndexDamaged: see `Manifest.read`.
        UsageError: an index without token vectors.
    """
    path = Path(path)
    manifest = Manifest.read(path)
    if manifest.engine == "hybrid" and "colbert" in manifest.settings["parts"]:
        return measure_passages(path / "colbert")
    if manifest.engine != "colbert":
        raise UsageError(
            f"{path}: an index of the engine {manifest.engine!r}, which keeps no token vectors to count; "
            "name a ColBERT index of some thousand of your passages"
        )
    from knowgap.retrieval.bm25 import Analyzer

    folder = path / manifest.root
    store = PassageStore(folder)
    try:
        lengths = np.load(folder / LENGTHS, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise IndexDamaged(f"{folder}: {LENGTHS} cannot be read ({error}); build the index again") from error
    analyze = Analyzer("english")
    chosen = [store[i] for i in range(0, len(store), max(1, len(store) // _READ))]
    return PassageSize(
        passages=len(store),
        tokens=float(lengths.mean()),
        words=float(np.mean([len({*analyze(passage.title), *analyze(passage.text)}) for passage in chosen])),
        text=store.text_bytes / len(store),
        dim=manifest.settings["dim"],
        narrows=manifest.checkpoint["name"] == EMBEDDED and manifest.settings["dim"] == WIDTH,
    )


def estimate_sizes(sample: PassageSize, passages: int, *, replicas: Sequence[int] = (1, 2)) -> list[IndexSize]:
    """Estimate what indexes of more passages of the same kind take.

    Args:
        sample: see `measure_passages`.
        passages: how many, from 1.
        replicas: for Qdrant, how many copies of everything a cluster keeps; an estimate for each.

    Returns:
        One estimate for each engine:

        - BM25: 8 bytes for each different word of a passage; in memory, the scores of all passages.
        - dense, at the width of the embedded encoder: 2 bytes per dimension. A search reads all vectors.
        - ColBERT: 2 bytes per dimension of a token vector, or a quarter of a byte and a centroid's number; and for
          each vector at most 8 bytes that say which passages are near which centroid. In memory, the centroids, as
          many as PLAID has, and 24 bytes a passage; vectors are read from the disk as they are needed.
        - Qdrant: the token vectors in 2 bytes per dimension and the texts on disk, a pooled vector for each passage in
          4 bytes per dimension on disk and in memory; half as much again of everything, by the rule of Qdrant's guide
          to capacity planning. For all nodes together.

        The embedded checkpoint's token vectors are taken at the width that it has for so many passages.

    Raises:
        ValueOutOfBounds: passages or replicas below 1.
    """
    if passages < 1 or any(copies < 1 for copies in replicas):
        raise ValueOutOfBounds(f"passages = {passages!r}, replicas = {list(replicas)!r}: at least 1")
    dim = PROJECTED if sample.narrows and passages > FULL_WIDTH else sample.dim
    tokens = math.ceil(passages * sample.tokens)
    text = passages * sample.text
    store = text + passages * _STORE
    centroids = min(1 << int(math.log2(16 * math.sqrt(tokens))), max(1, tokens // 4))
    near = 8 * tokens + centroids * (4 * dim + 8) + 8 * passages
    resident = centroids * (4 * dim + 8) + 24 * passages
    scores = 12 * passages  # in single precision, and again in double
    dense = passages * 2 * WIDTH
    rows = [
        ("bm25", 0, 8 * passages * sample.words + store, scores),
        (f"dense, {WIDTH} wide", passages, dense + 4 * passages + store, dense),
        (f"colbert, {dim} wide, 16 bits", tokens, tokens * 2 * dim + near + 4 * passages + store, resident),
        (f"colbert, {dim} wide, 2 bits", tokens, tokens * (dim / 4 + 4) + near + 4 * passages + store, resident),
    ]
    pooled = _QDRANT_SPARE * passages * 4 * dim
    copy = _QDRANT_SPARE * (tokens * 2 * dim + text) + pooled
    rows += [
        (f"qdrant, {dim} wide, {copies} {'copy' if copies == 1 else 'copies'}", tokens, copies * copy, copies * pooled)
        for copies in replicas
    ]
    return [IndexSize(passages, name, count, math.ceil(disk), math.ceil(memory)) for name, count, disk, memory in rows]
