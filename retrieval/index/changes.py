"""What was added to an index and deleted from it since it was built: files that only grow, and their record.

The record says how much of each file counts, and the SHA-256 of that much; see `manifest` for the protocol.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.errors import IndexDamaged
from knowgap.retrieval.passage import Passage
from knowgap.storage.files import naming, write_json

__all__ = ["Changes"]

RECORD = "changes.json"
PASSAGES, VECTORS, LENGTHS, DELETED = FILES = ("changes.jsonl", "changes.f16", "changes.i32", "changes.deleted.i64")

_REMEDY = "copy the index again, or build it again with overwrite and repeat what was added and deleted"


class Changes:
    """The changes of an index as they were when they were read.

    Args:
        folder: where the files of the index are.
        dim: width of a vector.
        earlier: changes that were read before; what they have verified is not hashed again.
        recorded: whether there must be a record.

    Attributes:
        generation: how many times the index was changed.
        passages: those that were added, in order, including deleted ones.
        vectors: their vectors, float16 [vectors, dim].
        lengths: how many vectors each has, [passages].
        deleted: positions of deleted passages, [deleted], in the order of deletion.

    Raises:
        IndexDamaged: a file is absent, or is not as the record says.
    """

    def __init__(self, folder: Path, dim: int, *, earlier: Changes | None = None, recorded: bool = False) -> None:
        self._folder = folder
        self.generation, files = _read_record(folder, dim, recorded)
        known = {} if earlier is None else earlier._contents
        self._contents = {name: self._read(name, files.get(name), known.get(name)) for name in FILES}
        try:
            lines = self._contents[PASSAGES][0].decode("ascii").splitlines()
            self.passages = [Passage.from_dict(json.loads(line)) for line in lines]
            self.vectors = np.frombuffer(self._contents[VECTORS][0], np.float16).reshape(-1, dim)
            self.lengths = np.frombuffer(self._contents[LENGTHS][0], np.int32)
            self.deleted = np.frombuffer(self._contents[DELETED][0], np.int64)
        except (ValueError, TypeError, KeyError) as error:
            raise IndexDamaged(f"{folder}: its changes cannot be read ({error}); {_REMEDY}") from error
        if len(self.passages) != len(self.lengths) or int(self.lengths.sum()) != len(self.vectors):
            raise IndexDamaged(f"{folder}: the files of its changes do not fit each other; {_REMEDY}")

    def _read(self, name: str, recorded: dict[str, Any] | None, known: tuple[bytes, Any] | None) -> tuple[bytes, Any]:
        """As much of a file as counts, and its SHA-256 so far."""
        if recorded is None:
            return b"", hashlib.sha256()
        try:
            with (self._folder / name).open("rb") as file:
                content = file.read(recorded["size"])
        except OSError as error:
            raise IndexDamaged(f"{self._folder}: {name} cannot be read ({error}); {_REMEDY}") from error
        if len(content) < recorded["size"]:
            raise IndexDamaged(
                f"{self._folder}: {name} has {len(content)} bytes instead of {recorded['size']}; {_REMEDY}"
            )
        verified, sha = known if known is not None and content.startswith(known[0]) else (b"", hashlib.sha256())
        sha = sha.copy()
        sha.update(memoryview(content)[len(verified) :])
        if recorded["sha256"] not in (None, sha.hexdigest()):
            raise IndexDamaged(f"{self._folder}: {name} was altered; {_REMEDY}")
        return content, sha

    def begin(self) -> None:
        """Write the record of no changes, if there is no record: from then on its absence is damage."""
        if not self.generation:
            write_json(self._folder / RECORD, {"generation": 0, "files": {}})

    def commit(
        self,
        passages: Sequence[Passage],
        vectors: npt.NDArray[np.float16],
        lengths: npt.NDArray[np.integer],
        deleted: Sequence[int],
    ) -> None:
        """Add and delete in one step, on disk when this returns, after `begin`. Only one writer may do so at a time.

        Args:
            passages: what to add.
            vectors: their vectors, passage after passage.
            lengths: how many vectors each has.
            deleted: positions of passages to delete.
        """
        # Everything that is not ASCII is escaped, so that a lone surrogate can be written, too.
        text = "".join(json.dumps(passage.to_dict()) + "\n" for passage in passages)
        blocks = {
            PASSAGES: text.encode("ascii"),
            VECTORS: np.ascontiguousarray(vectors, np.float16).tobytes(),
            LENGTHS: np.asarray(lengths, np.int32).tobytes(),
            DELETED: np.asarray(deleted, np.int64).tobytes(),
        }
        files = {}
        for name, block in blocks.items():
            content, sha = self._contents[name]
            self._append(name, len(content), block)
            sha = sha.copy()
            sha.update(block)
            if content or block:
                files[name] = {"size": len(content) + len(block), "sha256": sha.hexdigest()}
        write_json(self._folder / RECORD, {"generation": self.generation + 1, "files": files})

    def _append(self, name: str, start: int, content: bytes) -> None:
        if not content:
            return
        path = self._folder / name
        with naming(path), path.open("r+b" if path.exists() else "wb") as file:
            file.truncate(start)
            file.seek(start)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _read_record(folder: Path, dim: int, recorded: bool) -> tuple[int, dict[str, dict[str, Any]]]:
    """How many changes there were; and file name → size in bytes and SHA-256 of what counts, for files not empty."""
    # Looked for before the record is read: a writer makes the record first.
    others = [name for name in FILES if (folder / name).exists()]
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        if "files" not in record:
            record = _undigested(record, dim)
        generation, files = record["generation"], record["files"]
        sizes = [generation, *(entry["size"] for entry in files.values() if entry.keys() >= {"size", "sha256"})]
        if not all(type(size) is int and size >= 0 for size in sizes):
            raise ValueError("a size is not a count")
        if len(sizes) != len(files) + 1 or not files.keys() <= set(FILES) or bool(generation) != bool(files):
            raise ValueError("it is not a record of changes")
    except FileNotFoundError:
        if others or recorded:
            raise IndexDamaged(f"{folder}: {RECORD}, the record of what was changed, is missing; {_REMEDY}") from None
        return 0, {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise IndexDamaged(f"{folder}: {RECORD} cannot be read ({error}); {_REMEDY}") from error
    return generation, files


def _undigested(record: dict[str, Any], dim: int) -> dict[str, Any]:
    """A record as it was before it had digests, in today's form; its files are checked by size alone."""
    sizes = (record["text"], 2 * dim * record["vectors"], 4 * record["added"], 8 * record["deleted"])
    files = {name: {"size": size, "sha256": None} for name, size in zip(FILES, sizes, strict=True) if size}
    return {"generation": record["generation"], "files": files}
