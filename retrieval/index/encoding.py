"""Encoding a corpus into vectors on disk, chunk by chunk, so that a killed build loses one chunk at most."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.colbert.maxsim import LENGTHS, VECTORS
from knowgap.retrieval.index.build import IndexBuild, Progress
from knowgap.retrieval.index.files import write_json
from knowgap.retrieval.index.passage_store import PassageStore, hash_text

__all__ = ["STATE", "Encode", "EncodingState", "encode_corpus"]

Encode: TypeAlias = Callable[[Sequence[str]], tuple[npt.NDArray[np.float16], npt.NDArray[np.integer]]]

STATE = "encoded.json"
_CHUNK = 512


class EncodingState:
    """How far the encoding has come: `passages` passages, `tokens` vectors. On disk after each chunk."""

    def __init__(self, path: Path, record: dict[str, Any]) -> None:
        self._path, self._record = path, record

    @classmethod
    def resume(cls, build: IndexBuild, job: dict[str, Any]) -> EncodingState:
        """The state of this very job in the build; or a new one, all pieces of other jobs removed."""
        path = build.folder / STATE
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            record = {}
        if record.get("job") != job or "clustered" not in record:
            store = {path.name for path in build.folder.glob("passages.*")}
            build.clear(keep=store)
            record = {"job": job, "checkpoint": "", "passages": 0, "tokens": 0, "clustered": False}
            write_json(path, record)
        return cls(path, record)

    @property
    def checkpoint(self) -> str:
        """The digest of the checkpoint in use; empty before it is known."""
        return self._record["checkpoint"]

    @property
    def passages(self) -> int:
        """How many passages are encoded."""
        return self._record["passages"]

    @property
    def tokens(self) -> int:
        """How many vectors are on disk for them."""
        return self._record["tokens"]

    @property
    def clustered(self) -> bool:
        """Whether the vectors have the form that the index is to keep."""
        return self._record["clustered"]

    def save(self, **changes: Any) -> None:
        """Change the record, durably."""
        self._record |= changes
        write_json(self._path, self._record)


def encode_corpus(
    store: PassageStore,
    encode: Encode,
    dim: int,
    folder: Path,
    state: EncodingState,
    progress: Progress | None,
) -> None:
    """Encode what the state says is missing, into `tokens.f16` and `tokens.lengths.npy`.

    Equal texts are encoded once and get the same vectors.

    Args:
        store: the passages.
        encode: texts to float16 [vectors, dim], text after text, and how many vectors each text has.
        dim: width of a vector.
        folder: where the files are.
        state: how far an earlier call came; kept up to date, chunk by chunk.
        progress: called before each chunk and at the end.
    """
    if state.passages == len(store):
        return
    originals = _originals(store)
    size = 2 * dim
    lengths = np.zeros(len(store), dtype=np.int32)
    if state.passages:
        lengths[: state.passages] = np.load(folder / LENGTHS, allow_pickle=False)[: state.passages]
    with (folder / VECTORS).open("r+b" if state.passages else "wb") as file:
        file.truncate(state.tokens * size)
        file.seek(0, os.SEEK_END)
        for first in range(state.passages, len(store), _CHUNK):
            if progress:
                progress(first, len(store), "encoding passages")
            chunk = range(first, min(first + _CHUNK, len(store)))
            new = [i for i in chunk if originals[i] == i]
            vectors, counts = encode([str(store[i]) for i in new])
            lengths[new] = counts
            ends = np.cumsum(counts)
            pieces = {i: vectors[end - count : end] for i, end, count in zip(new, ends, counts, strict=True)}
            for i in chunk:
                lengths[i] = lengths[originals[i]]
            starts = np.concatenate([[0], np.cumsum(lengths[: chunk.stop], dtype=np.int64)])
            written = 0
            for i in chunk:
                j = int(originals[i])
                if j not in pieces:  # its twin is in an earlier chunk
                    file.flush()
                    pieces[j] = np.fromfile(
                        folder / VECTORS, np.float16, int(lengths[j]) * dim, offset=int(starts[j]) * size
                    ).reshape(-1, dim)
                file.write(pieces[j].tobytes())
                written += len(pieces[j])
            file.flush()
            os.fsync(file.fileno())
            np.save(folder / LENGTHS, lengths)
            state.save(passages=chunk.stop, tokens=state.tokens + written)
    if progress:
        progress(len(store), len(store), "encoding passages")


def _originals(store: PassageStore) -> npt.NDArray[np.int64]:
    """For each passage the first one with the same title and text. [passages]."""
    hashes = np.fromiter((hash_text(str(passage)) for passage in store), dtype=np.uint64, count=len(store))
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    return first[group]
