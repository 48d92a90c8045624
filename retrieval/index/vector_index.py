"""An index of passages by vectors, ranked by MaxSim; a dense index has one vector for each passage and query."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.index.build import IndexBuild
from knowgap.retrieval.index.encoding import STATE, EncodingState, encode_corpus
from knowgap.retrieval.index.folder_index import FolderIndex
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import PassageStore, Positions
from knowgap.retrieval.index.snapshot import WORDS, Snapshot
from knowgap.retrieval.index.vectors import Vectors, nearest
from knowgap.retrieval.postings import write_words
from knowgap.retrieval.window import Encoder
from knowgap.storage.progress import Progress


class VectorIndex(FolderIndex):
    """An index of passages by vectors, in a folder."""

    path: Path

    def __init__(self, path: Path, manifest: Manifest, device: str | None) -> None:
        super().__init__(path, manifest)
        self._device = device

    def _score(
        self, snapshot: Snapshot, encoder: Encoder, query: str, k: int, admitted: Positions
    ) -> tuple[Positions, npt.NDArray[np.floating]]:
        return nearest(snapshot.vectors, encoder.encode_query(query), k, admitted)


def write_vectors(
    build: IndexBuild, store: PassageStore, encoder: Encoder, state: EncodingState, manifest: Manifest, report: Progress
) -> None:
    """Encode the passages of a build that are not encoded yet, count their words if the index has any, and finish it.

    Raises:
        UsageError, IndexDamaged, IndexForeign: see `IndexBuild.already_built`.
    """
    if not build.already_built(manifest):
        encode_corpus(store, encoder, state, report)
        Vectors.write_means(build.segment, encoder.dim)
        if "k1" in manifest.settings:
            shutil.rmtree(build.segment / WORDS, ignore_errors=True)  # a killed build may have begun it
            write_words(store, build.segment / WORDS, manifest.settings, report)
    build.finish(manifest, leave_out=[STATE])
