"""Turning a changed index into a fresh one, inside its own folder.

The new files are written to a folder of their own below that of the index; replacing the manifest makes them the
index in one step. What is then of no use is removed, by this compaction or, after a kill, by the next.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from knowgap.errors import UsageError
from knowgap.retrieval.colbert.inverted_lists import TOKEN_CODES, CentroidIndex
from knowgap.retrieval.colbert.maxsim import LENGTHS, VECTORS, TokenVectors
from knowgap.retrieval.colbert.residual_codec import ResidualVectors
from knowgap.retrieval.index.build import Progress
from knowgap.retrieval.index.manifest import Manifest, record_files, write_manifest
from knowgap.retrieval.index.passage_store import PassageStore
from knowgap.retrieval.index.snapshot import Snapshot

if TYPE_CHECKING:
    from knowgap.retrieval.index.vector_index import Encoder

__all__ = ["cluster", "compact"]

_WORTH_CLUSTERING = 400_000  # vectors; fewer are scored in less time than it takes to choose among them
_AT_ONCE = 1024
_ROOT = re.compile(r"compacted-\d+")
_OURS = re.compile(r"(?:passages|tokens|cells|codes|changes)\..+|(?:centroids|cells|codes|buckets)\.npy")


def cluster(folder: Path, dim: int, nbits: int, clustered: bool | None, progress: Progress | None) -> None:
    """Cluster and compress the vectors in a folder as the index is to have them; `tokens.f16` is left for removal."""
    tokens = TokenVectors.open(folder, dim)
    if clustered or nbits < 16 or (clustered is None and len(tokens.vectors) >= _WORTH_CLUSTERING):
        centroids = CentroidIndex.build(tokens, folder, progress=progress).centroids
        if nbits < 16:
            ResidualVectors.build(tokens.vectors, centroids, nbits, folder, progress=progress)
        else:
            (folder / TOKEN_CODES).unlink()


def compact(path: Path, snapshot: Snapshot, encoder: Encoder) -> Manifest:
    """Write the live part of a snapshot as the built index.

    Args:
        path: the folder of the index; the caller holds its writer's lock.
        snapshot: the index as it is.
        encoder: encodes the passages again where the index keeps compressed vectors only.

    Returns:
        The new manifest, which is on disk.

    Raises:
        UsageError: everything was deleted.
    """
    if not len(snapshot):
        raise UsageError(f"{path}: every passage was deleted; remove the folder instead")
    old, settings = snapshot.manifest, snapshot.manifest.settings
    _sweep(path, old)
    number = int(old.root.removeprefix("compacted-")) if _ROOT.fullmatch(old.root) else 0
    root = f"compacted-{number + 1}"
    folder = path / root
    folder.mkdir()
    live = snapshot.live().tolist()
    store, digest = PassageStore.build((snapshot[position] for position in live), folder)
    lengths = []
    with (folder / VECTORS).open("wb") as file:
        for vectors, count in _vectors(snapshot, live, encoder):
            file.write(vectors.tobytes())
            lengths.append(count)
    np.save(folder / LENGTHS, np.concatenate(lengths).astype(np.int32))
    if "nbits" in settings:
        cluster(folder, settings["dim"], settings["nbits"], settings["clustered"], None)
        if settings["nbits"] < 16:
            (folder / VECTORS).unlink()
    kept = {name: entry for name, entry in old.files.items() if name.startswith("checkpoint/")}
    files = kept | {f"{root}/{name}": entry for name, entry in record_files(folder).items()}
    manifest = replace(old, passages=len(store), corpus_digest=digest, files=files, root=root)
    write_manifest(path, manifest)
    _sweep(path, manifest)
    return manifest


def _vectors(snapshot: Snapshot, live: list[int], encoder: Encoder) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The vectors of live passages, some passages at a time, and how many each has."""
    first = len(snapshot.store)
    for start in range(0, len(live), _AT_ONCE):
        part = np.array(live[start : start + _AT_ONCE])
        if snapshot.manifest.settings.get("nbits", 16) < 16:
            yield encoder.encode_passages([str(snapshot[int(position)]) for position in part])
            continue
        for tokens, mine in ((snapshot.base, part[part < first]), (snapshot.added, part[part >= first] - first)):
            yield tokens.of(mine), tokens.lengths[mine]


def _sweep(path: Path, manifest: Manifest) -> None:
    """Remove what an earlier build, compaction or set of changes left and the manifest does not know."""
    for entry in path.iterdir():
        if _ROOT.fullmatch(entry.name) and entry.name != manifest.root:
            shutil.rmtree(entry)
        elif manifest.root != "." and _OURS.fullmatch(entry.name):
            entry.unlink()
