"""What was added to an index and deleted from it since it was built: four files that only grow, and a record.

Added passages, their vectors, and the positions of deleted passages are appended and brought to disk; then the record
that says how much of each file counts is replaced in one step. A kill between any two writes leaves the old record,
and with it the old index; what lies beyond the record is cut off by the next writer. Positions count on from those of
the built index: the first added passage stands behind its last.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowgap.errors import IndexDamaged
from knowgap.retrieval.index.files import write_json
from knowgap.retrieval.passage import Passage

__all__ = ["Changes"]

RECORD = "changes.json"
PASSAGES, VECTORS, LENGTHS, DELETED = "changes.jsonl", "changes.f16", "changes.i32", "changes.deleted.i64"


@dataclass(frozen=True)
class _Record:
    generation: int = 0
    text: int = 0  # bytes of the passages
    added: int = 0
    vectors: int = 0
    deleted: int = 0


class Changes:
    """The changes of an index as they stood when they were read.

    Args:
        folder: where the files of the index are.
        dim: width of a vector.

    Attributes:
        generation: how many times the index was changed.
        passages: those that were added, in order, deleted ones included.
        vectors: their vectors, float16 [vectors, dim].
        lengths: how many vectors each has, [passages].
        deleted: positions of deleted passages, [deleted], in the order of deletion.

    Raises:
        IndexDamaged: the files hold less than the record says.
    """

    def __init__(self, folder: Path, dim: int) -> None:
        self._folder, self._dim = folder, dim
        try:
            record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        except FileNotFoundError:
            record = asdict(_Record())
        except (OSError, ValueError) as error:
            raise IndexDamaged(f"{folder}: {RECORD} cannot be read ({error})") from error
        try:
            self._record = _Record(**record)
        except TypeError as error:
            raise IndexDamaged(f"{folder}: {RECORD} is not a record of changes ({error})") from error
        self.generation = self._record.generation
        lines = self._read(PASSAGES, self._record.text).decode("ascii").splitlines()
        self.passages = [Passage.from_dict(json.loads(line)) for line in lines]
        self.vectors = np.frombuffer(self._read(VECTORS, 2 * dim * self._record.vectors), np.float16).reshape(-1, dim)
        self.lengths = np.frombuffer(self._read(LENGTHS, 4 * self._record.added), np.int32)
        self.deleted = np.frombuffer(self._read(DELETED, 8 * self._record.deleted), np.int64)
        if len(self.passages) != len(self.lengths) or int(self.lengths.sum()) != len(self.vectors):
            raise IndexDamaged(f"{folder}: the files of its changes do not fit each other")

    def _read(self, name: str, size: int) -> bytes:
        if not size:
            return b""
        try:
            with (self._folder / name).open("rb") as file:
                content = file.read(size)
        except OSError as error:
            raise IndexDamaged(f"{self._folder}: {name} cannot be read ({error})") from error
        if len(content) < size:
            raise IndexDamaged(f"{self._folder}: {name} has {len(content)} bytes instead of {size}")
        return content

    def commit(
        self,
        passages: Sequence[Passage],
        vectors: npt.NDArray[np.float16],
        lengths: npt.NDArray[np.integer],
        deleted: Sequence[int],
    ) -> Changes:
        """Add and delete in one step, on disk when this returns; only one writer may do so at a time.

        Args:
            passages: what to add.
            vectors: their vectors, passage after passage.
            lengths: how many vectors each has.
            deleted: positions of passages to delete.

        Returns:
            The changes as they are then.
        """
        old = self._record
        # All that is not ASCII is escaped, so that a lone surrogate is written, too.
        text = "".join(json.dumps(passage.to_dict()) + "\n" for passage in passages).encode("ascii")
        self._append(PASSAGES, old.text, text)
        self._append(VECTORS, 2 * self._dim * old.vectors, np.ascontiguousarray(vectors, np.float16).tobytes())
        self._append(LENGTHS, 4 * old.added, np.asarray(lengths, np.int32).tobytes())
        self._append(DELETED, 8 * old.deleted, np.asarray(deleted, np.int64).tobytes())
        new = _Record(
            old.generation + 1,
            old.text + len(text),
            old.added + len(passages),
            old.vectors + len(vectors),
            old.deleted + len(deleted),
        )
        write_json(self._folder / RECORD, asdict(new))
        return Changes(self._folder, self._dim)

    def _append(self, name: str, start: int, content: bytes) -> None:
        if not content:
            return
        path = self._folder / name
        with path.open("r+b" if path.exists() else "wb") as file:
            file.truncate(start)
            file.seek(start)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
