"""Encoding a corpus into vectors on disk, chunk by chunk, so that a killed build loses one chunk at most."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.index.build import BuildState
from knowgap.retrieval.index.passage_store import PassageStore, hash_text
from knowgap.retrieval.index.vectors import LENGTHS, VECTORS, Vectors, fixed_point
from knowgap.retrieval.window import Encoder, warn_of_cut
from knowgap.storage.progress import Progress

_CHUNK = 512


def encode_corpus(store: PassageStore, encoder: Encoder, state: BuildState, progress: Progress) -> None:
    """Encode the passages that `state` does not count as encoded, and write the files of `Vectors`.

    The state is saved, and the progress reported, after each chunk. Equal texts are encoded once and get the same
    vectors. Warns of passages that are longer than the encoder's window.
    """
    folder, dim = store.folder, encoder.dim
    originals = _originals(store)
    firsts = range(state.passages, len(store), _CHUNK)
    if not state.passages:
        np.save(folder / LENGTHS, np.zeros(len(store), dtype=np.int32))
    lengths = np.load(folder / LENGTHS, allow_pickle=False)
    lengths[state.passages :] = 0
    starts = np.cumsum(lengths, dtype=np.int64) - lengths

    def to_encode(first: int) -> npt.NDArray[np.int64]:
        chunk = np.arange(first, min(first + _CHUNK, len(store)))
        return chunk[originals[chunk] == chunk]

    texts = ([str(store[i]) for i in to_encode(first).tolist()] for first in firsts)
    progress(state.passages, len(store), "encoding passages")
    with (
        (folder / VECTORS).open("r+b" if state.passages else "wb") as file,
        (folder / LENGTHS).open("r+b") as lengths_file,
    ):
        file.truncate(state.tokens * 2 * dim)
        file.seek(0, os.SEEK_END)
        lengths_file.seek((state.passages - len(store)) * lengths.itemsize, os.SEEK_END)
        for first, (vectors, counts) in zip(firsts, map(encoder.encode_passages, texts), strict=True):
            chunk, new, ends = np.arange(first, min(first + _CHUNK, len(store))), to_encode(first), np.cumsum(counts)
            vectors = fixed_point(vectors)
            pieces = {i: vectors[end - count : end] for i, count, end in zip(new.tolist(), counts, ends, strict=True)}
            lengths[new] = counts
            lengths[chunk] = lengths[originals[chunk]]
            starts[chunk] = state.tokens + np.cumsum(lengths[chunk], dtype=np.int64) - lengths[chunk]
            for original in originals[chunk].tolist():
                if original not in pieces:  # it is in an earlier chunk
                    file.flush()
                    start, values = int(starts[original]), int(lengths[original]) * dim
                    pieces[original] = np.fromfile(folder / VECTORS, np.int16, values, offset=start * 2 * dim)
                file.write(pieces[original].tobytes())
            lengths_file.write(lengths[chunk].tobytes())
            for written in (file, lengths_file):
                written.flush()
                os.fsync(written.fileno())
            cut = encoder.window.cut([str(store[i]) for i in chunk.tolist()]) if encoder.window is not None else 0
            tokens = state.tokens + int(lengths[chunk].sum())
            state.save(passages=int(chunk[-1]) + 1, tokens=tokens, cut=state.cut + cut)
            progress(state.passages, len(store), "encoding passages")
    Vectors.write_means(folder, dim)
    warn_of_cut(state.cut, len(store), encoder.window)


def _originals(store: PassageStore) -> npt.NDArray[np.int64]:
    """The position of the first passage with the same title and text, for each passage. [passages]."""
    hashes = np.fromiter((hash_text(str(passage)) for passage in store), dtype=np.uint64, count=len(store))
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    return first[group]
