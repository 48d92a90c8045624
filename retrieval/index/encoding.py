"""Encoding a corpus into vectors on disk, chunk by chunk, so that a killed build loses one chunk at most."""

from __future__ import annotations

import os

import numpy as np

from knowgap.retrieval.index.build import BuildState
from knowgap.retrieval.index.passage_store import PassageStore
from knowgap.retrieval.index.vectors import LENGTHS, VECTORS, Vectors, fixed_point
from knowgap.retrieval.window import Encoder, warn_of_cut
from knowgap.storage.progress import Progress

_CHUNK = 512


def encode_corpus(store: PassageStore, encoder: Encoder, state: BuildState, progress: Progress) -> None:
    """Encode the passages that `state` does not count as encoded, and write the files of `Vectors`.

    The state is saved, and the progress reported, after each chunk, in which equal texts get the same vectors. Warns of
    passages that are longer than the encoder's window.
    """
    folder = store.folder
    progress(state.passages, len(store), "encoding passages")
    with (folder / VECTORS).open("ab") as vectors_file, (folder / LENGTHS).open("ab") as lengths_file:
        vectors_file.truncate(state.tokens * 2 * encoder.dim)  # a killed build may have written more
        lengths_file.truncate(state.passages * 4)
        while state.passages < len(store):
            texts = [str(store[i]) for i in range(state.passages, min(state.passages + _CHUNK, len(store)))]
            distinct = list(dict.fromkeys(texts))
            vectors, counts = encoder.encode_passages(distinct)
            pieces = dict(zip(distinct, np.split(fixed_point(vectors), np.cumsum(counts)[:-1]), strict=True))
            lengths = np.array([len(pieces[text]) for text in texts], dtype=np.int32)
            vectors_file.writelines(pieces[text].tobytes() for text in texts)
            lengths_file.write(lengths.tobytes())
            for written in (vectors_file, lengths_file):
                written.flush()
                os.fsync(written.fileno())
            state.save(
                passages=state.passages + len(texts),
                tokens=state.tokens + int(lengths.sum()),
                cut=state.cut + (encoder.window.cut(texts) if encoder.window is not None else 0),
            )
            progress(state.passages, len(store), "encoding passages")
    Vectors.write_means(folder, encoder.dim)
    warn_of_cut(state.cut, len(store), encoder.window)
