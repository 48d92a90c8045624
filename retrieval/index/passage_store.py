"""Passages on disk, read one at a time through a memory map.

Three files make a store: `passages.bin` (the UTF-8 bytes of every id, title and text, one after another),
`passages.offsets.npy` (where each of them starts) and `passages.ids.npy` (hashes of the ids in ascending order, each
with its position). Nothing is loaded beyond what is asked for, and no path is recorded, so a folder can be moved.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from knowgap.errors import DataError, IndexDamaged, ValueOutOfBounds
from knowgap.retrieval.passage import Hit, Passage, rank_hits

__all__ = [
    "MemoryStore",
    "PassageStore",
    "Positions",
    "Where",
    "check_k",
    "corpus_digest",
    "hash_text",
    "scored_hits",
    "select_positions",
    "top_hits",
]

Positions: TypeAlias = npt.NDArray[np.int64]
Where: TypeAlias = Callable[[Passage], bool]

BYTES, OFFSETS, IDS = "passages.bin", "passages.offsets.npy", "passages.ids.npy"
_ID_ENTRY = np.dtype([("hash", "<u8"), ("position", "<i8")])


def _encode(text: str) -> bytes:
    # A lone surrogate is legal in a Python string, though not in UTF-8; it must not cost a passage.
    return text.encode("utf-8", "surrogatepass")


def hash_text(text: str) -> int:
    """64 bits of a text that are the same in every process."""
    return _hash(_encode(text))


def _hash(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


class _Digest:
    """SHA-256 over length-prefixed ids, titles and texts, so that no two corpora share a byte stream."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def update(self, parts: Iterable[bytes]) -> None:
        for part in parts:
            self._sha.update(len(part).to_bytes(8, "little"))
            self._sha.update(part)

    def hexdigest(self) -> str:
        return self._sha.hexdigest()


def corpus_digest(passages: Iterable[Passage]) -> str:
    """The SHA-256 of a corpus: ids, titles and texts in their order, in hexadecimal."""
    digest = _Digest()
    for passage in passages:
        digest.update((_encode(passage.id), _encode(passage.title), _encode(passage.text)))
    return digest.hexdigest()


class MemoryStore(Sequence[Passage]):
    """Passages in memory under the interface of `PassageStore`, for small or passing collections.

    Raises:
        DataError: two passages have the same id.
    """

    def __init__(self, passages: Iterable[Passage]) -> None:
        self._passages = list(passages)
        self._positions: dict[str, int] = {}
        for position, passage in enumerate(self._passages):
            if self._positions.setdefault(passage.id, position) != position:
                raise _duplicate(passage.id, self._positions[passage.id], position)

    def __len__(self) -> int:
        return len(self._passages)

    def __getitem__(self, position: int) -> Passage:  # pyright: ignore[reportIncompatibleMethodOverride]  # no slices
        return self._passages[position]

    def position(self, identifier: str) -> int | None:
        """Where the passage with this id stands, or None."""
        return self._positions.get(identifier)


class PassageStore(Sequence[Passage]):
    """A read-only, memory-mapped sequence of passages.

    Args:
        folder: where `build` wrote it.

    Raises:
        IndexDamaged: a file is absent, or does not fit the others.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self._offsets = np.load(self.folder / OFFSETS, mmap_mode="r", allow_pickle=False)
            self._ids = np.load(self.folder / IDS, mmap_mode="r", allow_pickle=False)
            with (self.folder / BYTES).open("rb") as file:
                size = (self.folder / BYTES).stat().st_size
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        except (OSError, ValueError) as error:
            raise IndexDamaged(
                f"{self.folder}: the passages cannot be read ({error}); build the index again"
            ) from error
        if self._ids.dtype != _ID_ENTRY or len(self._offsets) != 3 * len(self._ids) + 1 or self._offsets[-1] != size:
            raise IndexDamaged(f"{self.folder}: the passage files do not fit each other; build the index again")

    @classmethod
    def build(cls, passages: Iterable[Passage], folder: str | Path) -> tuple[PassageStore, str]:
        """Write passages, as they come, to a folder.

        Args:
            passages: any iterable; it is read once, in constant memory but for 32 bytes a passage.
            folder: an existing folder; the files of an earlier store there are overwritten.

        Returns:
            The open store, and the digest of the corpus (see `corpus_digest`).

        Raises:
            DataError: two passages have the same id.
        """
        folder = Path(folder)
        digest = _Digest()
        offsets, hashes, end = [0], [], 0
        with (folder / BYTES).open("wb") as file:
            for passage in passages:
                parts = (_encode(passage.id), _encode(passage.title), _encode(passage.text))
                hashes.append(_hash(parts[0]))
                for part in parts:
                    end += len(part)
                    offsets.append(end)
                    file.write(part)
                digest.update(parts)
        entries = np.empty(len(hashes), dtype=_ID_ENTRY)
        entries["hash"] = hashes
        entries["position"] = np.arange(len(hashes))
        entries.sort(order=["hash", "position"])
        np.save(folder / OFFSETS, np.asarray(offsets, dtype=np.int64))
        np.save(folder / IDS, entries)
        store = cls(folder)
        for row in np.flatnonzero(entries["hash"][1:] == entries["hash"][:-1]):
            first, second = int(entries["position"][row]), int(entries["position"][row + 1])
            if store.identifier(first) == store.identifier(second):
                raise _duplicate(store.identifier(first), first, second)
        return store, digest.hexdigest()

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, position: int) -> Passage:  # pyright: ignore[reportIncompatibleMethodOverride]  # no slices
        if not -len(self) <= position < len(self):
            raise IndexError(f"passage {position} of {len(self)}")
        row = 3 * (position % len(self))
        start, title, text, end = self._offsets[row : row + 4].tolist()
        return Passage(self._text(start, title), self._text(title, text), self._text(text, end))

    def __iter__(self) -> Iterator[Passage]:
        return (self[position] for position in range(len(self)))

    @property
    def text_bytes(self) -> int:
        """Bytes of all ids, titles and texts together."""
        return len(self._bytes)

    def identifier(self, position: int) -> str:
        """The id of the passage at a position, without reading the rest of it."""
        start, end = self._offsets[3 * position : 3 * position + 2].tolist()
        return self._text(start, end)

    def position(self, identifier: str) -> int | None:
        """Where the passage with this id stands, or None."""
        wanted = np.uint64(_hash(_encode(identifier)))
        row = int(np.searchsorted(self._ids["hash"], wanted))
        while row < len(self._ids) and self._ids["hash"][row] == wanted:
            position = int(self._ids["position"][row])
            if self.identifier(position) == identifier:
                return position
            row += 1
        return None

    def digest(self) -> str:
        """The digest of the corpus, computed anew from the bytes on disk."""
        return corpus_digest(self)

    def _text(self, start: int, end: int) -> str:
        return self._bytes[start:end].decode("utf-8", "surrogatepass")


def _duplicate(identifier: str, first: int, second: int) -> DataError:
    return DataError(
        f"the id {identifier!r} is used by passage {first + 1} and by passage {second + 1}; ids must be unique",
        field="id",
    )


def check_k(k: int) -> None:
    """Raise `ValueOutOfBounds` unless `k` is a positive integer."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueOutOfBounds(f"k = {k!r}: the number of passages must be an integer from 1")


def select_positions(
    store: PassageStore | MemoryStore, ids: Collection[str] | None = None, where: Where | None = None
) -> Positions | None:
    """The positions that a filter admits, ascending; None where there is no filter.

    Args:
        store: the passages.
        ids: admit only these ids; ids that the store does not hold are passed over.
        where: admit only passages for which this is true; called once for each passage that `ids` admits.
    """
    if ids is None and where is None:
        return None
    if ids is None:
        chosen: Iterable[int] = range(len(store))
    else:
        chosen = sorted({position for position in map(store.position, ids) if position is not None})
    if where is not None:
        chosen = [position for position in chosen if where(store[position])]
    return np.fromiter(chosen, dtype=np.int64)


def top_hits(
    store: PassageStore | MemoryStore,
    scores: npt.NDArray[np.floating],
    k: int,
    *,
    positions: Positions | None = None,
) -> list[Hit]:
    """The `k` best of a score vector as hits, ties at the cut included in the choice by id.

    Args:
        store: where the passages are.
        scores: one score per passage of the store, or per entry of `positions`; -inf marks what must not be returned.
        k: how many hits at most.
        positions: the positions that the scores belong to, where they are not 0, 1, 2, …
    """
    rows = np.flatnonzero(scores > -np.inf)
    return scored_hits(store, rows if positions is None else positions[rows], scores[rows], k)


class _Passages(Protocol):
    def __getitem__(self, position: int, /) -> Passage: ...


def scored_hits(store: _Passages, positions: Positions, scores: npt.NDArray[np.floating], k: int) -> list[Hit]:
    """The `k` best of some scored positions as hits; passages that cannot be among them are not read."""
    if len(scores) > k:
        chosen = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
        positions, scores = positions[chosen], scores[chosen]
    return rank_hits(((store[int(p)], float(score)) for p, score in zip(positions, scores, strict=True)), k)
