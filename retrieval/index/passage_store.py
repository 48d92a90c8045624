"""Passages on disk, read one at a time through a memory map.

A store has three files: `passages.bin` (the UTF-8 bytes of every id, title and text, one after another),
`passages.offsets.npy` (where each of them starts) and `passages.ids.npy` (hashes of the ids in ascending order, each
with its position). No path is recorded, so a folder can be moved.
"""

from __future__ import annotations

import bisect
import hashlib
import mmap
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from knowgap.errors import DataError
from knowgap.retrieval.passage import SCORE_DECIMALS, Hit, Passage, rank_hits

Positions: TypeAlias = npt.NDArray[np.int64]

BYTES, OFFSETS, IDS = "passages.bin", "passages.offsets.npy", "passages.ids.npy"
_ID_ENTRY = np.dtype([("hash", "<u8"), ("position", "<i8")])


def hash_text(text: str) -> int:
    """A 64-bit hash of a text that is the same in every process."""
    return int.from_bytes(hashlib.blake2b(_encode(text), digest_size=8).digest(), "little")


def _encode(text: str) -> bytes:
    # A passage may have a lone surrogate, which is legal in a Python string but not in UTF-8.
    return text.encode("utf-8", "surrogatepass")


class PassageStore(Sequence[Passage]):
    """A read-only, memory-mapped sequence of the passages that `build` wrote to a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._offsets = np.load(self.folder / OFFSETS, mmap_mode="r", allow_pickle=False)
        self._ids = np.load(self.folder / IDS, mmap_mode="r", allow_pickle=False)
        with (self.folder / BYTES).open("rb") as file:
            size = (self.folder / BYTES).stat().st_size
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""

    @classmethod
    def build(cls, passages: Iterable[Passage], folder: str | Path) -> tuple[PassageStore, str]:
        """Write passages to an existing folder while they are read, which takes about 50 bytes of memory per passage.

        Returns:
            The open store, and the SHA-256 of ids, titles and texts in their order.

        Raises:
            DataError: two passages have the same id.
        """
        folder, sha = Path(folder), hashlib.sha256()
        offsets, hashes, end = array("q", [0]), array("Q"), 0
        with (folder / BYTES).open("wb") as file:
            for passage in passages:
                parts = [_encode(passage.id), _encode(passage.title), _encode(passage.text)]
                hashes.append(hash_text(passage.id))
                for part in parts:
                    end += len(part)
                    offsets.append(end)
                    file.write(part)
                    sha.update(len(part).to_bytes(8, "little"))  # so that no two corpora give the same bytes
                    sha.update(part)
        entries = np.empty(len(hashes), dtype=_ID_ENTRY)
        np.save(folder / OFFSETS, np.frombuffer(offsets, dtype=np.int64))
        del offsets
        unsorted = np.array(hashes, dtype=np.uint64)
        entries["position"] = np.argsort(unsorted, kind="stable")
        entries["hash"] = unsorted[entries["position"]]
        np.save(folder / IDS, entries)
        store = cls(folder)
        for row in np.flatnonzero(entries["hash"][1:] == entries["hash"][:-1]):
            first, second = entries["position"][row : row + 2].tolist()
            if store.identifier(first) == store.identifier(second):
                raise DataError(
                    f"the id {store.identifier(first)!r} is used by passage {first + 1} and by passage {second + 1}; "
                    "ids must be unique",
                    field="id",
                )
        return store, sha.hexdigest()

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, position: int) -> Passage:  # pyright: ignore[reportIncompatibleMethodOverride]  # no slices
        if position >= len(self):
            raise IndexError(f"passage {position} of {len(self)}")
        row = 3 * position
        start, title, text, end = self._offsets[row : row + 4].tolist()
        return Passage(self._text(start, title), self._text(title, text), self._text(text, end))

    def identifier(self, position: int) -> str:
        """The id of the passage at a position; the rest of it is not read."""
        start, end = self._offsets[3 * position : 3 * position + 2].tolist()
        return self._text(start, end)

    def position(self, identifier: str) -> int | None:
        """The position of the passage with this id, or None."""
        hashes, wanted = self._ids["hash"], hash_text(identifier)
        row = bisect.bisect_left(hashes, wanted)  # unlike np.searchsorted, it copies nothing
        while row < len(self) and hashes[row] == wanted:
            position = int(self._ids["position"][row])
            if self.identifier(position) == identifier:
                return position
            row += 1
        return None

    def _text(self, start: int, end: int) -> str:
        return self._bytes[start:end].decode("utf-8", "surrogatepass")


def scored_hits(passages: Any, positions: Positions, scores: npt.NDArray[np.floating], k: int) -> list[Hit]:
    """The passages with the `k` best scores, rounded to `SCORE_DECIMALS`, as hits; other passages are not read."""
    scores = np.round(scores.astype(np.float64), SCORE_DECIMALS)
    if len(scores) > k:
        chosen = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
        positions, scores = positions[chosen], scores[chosen]
    return rank_hits(((passages[int(p)], float(score)) for p, score in zip(positions, scores, strict=True)), k)
