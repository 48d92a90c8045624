"""An index of passages by vectors, ranked by MaxSim; a dense index has one vector for each passage and query."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from knowgap.retrieval.index.folder_index import FolderIndex, write_segment
from knowgap.retrieval.index.passage_store import Positions
from knowgap.retrieval.index.snapshot import Snapshot
from knowgap.retrieval.index.vectors import nearest
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.window import Encoder
from knowgap.storage.progress import Progress


class VectorIndex(FolderIndex):
    """An index of passages by vectors, in a folder."""

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        *,
        encoder: Any = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Encode passages and write an index, or continue an interrupted call with the same arguments.

        Args:
            passages: what to index; read once. Title and text are encoded together.
            path: the folder; if it already holds the same index, that is opened.
            encoder: what encodes passages and queries, as the class says. On a machine with a CUDA GPU it runs there.
            overwrite: replace another index at the path.
            progress: called after each chunk of passages.

        Raises:
            DataError: there are no passages, or two with the same id.
            CheckpointError: no such encoder, or a damaged one.
            UsageError: another index is at the path.
        """
        cls._build(passages, path, {}, write_segment, encoder=encoder, overwrite=overwrite, progress=progress)
        return cls.open(path, encoder=encoder)

    def _score(
        self, snapshot: Snapshot, encoder: Encoder, query: str, k: int, admitted: Positions
    ) -> tuple[Positions, npt.NDArray[np.floating]]:
        return nearest(snapshot.vectors, encoder.encode_query(query), k, admitted)
