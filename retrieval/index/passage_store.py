"""Passages on disk, read one at a time through a memory map.

A store has two files: `passages.bin` (the UTF-8 bytes of every id, title and text, one after another) and
`passages.offsets.npy` (where each of them starts). No path is recorded, so a folder can be moved.
"""

from __future__ import annotations

import hashlib
import mmap
from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from knowgap.errors import DataError
from knowgap.retrieval.passage import SCORE_DECIMALS, Hit, Passage, rank_hits

Positions: TypeAlias = npt.NDArray[np.int64]

BYTES, OFFSETS = "passages.bin", "passages.offsets.npy"


def _encode(text: str) -> bytes:
    # A passage may have a lone surrogate, which is legal in a Python string but not in UTF-8.
    return text.encode("utf-8", "surrogatepass")


class PassageStore(Sequence[Passage]):
    """A read-only, memory-mapped sequence of the passages that `build` wrote to a folder."""

    def __init__(self, folder: str | Path) -> None:
        self._offsets = np.load(Path(folder) / OFFSETS, mmap_mode="r", allow_pickle=False)
        with (Path(folder) / BYTES).open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self._offsets[-1] else b""

    @classmethod
    def build(cls, passages: Iterable[Passage], folder: str | Path) -> tuple[PassageStore, str]:
        """Write passages to an existing folder while they are read; only their ids and places are kept in memory.

        Returns:
            The open store, and the SHA-256 of ids, titles and texts in their order.

        Raises:
            DataError: two passages have the same id.
        """
        offsets, numbers, sha = array("q", [0]), dict[str, int](), hashlib.sha256()
        with (Path(folder) / BYTES).open("wb") as file:
            for number, passage in enumerate(passages, start=1):
                if (first := numbers.setdefault(passage.id, number)) != number:
                    used = f"the id {passage.id!r} is used by passage {first} and by passage {number}"
                    raise DataError(f"{used}; ids must be unique", field="id")
                for part in map(_encode, (passage.id, passage.title, passage.text)):
                    file.write(part)
                    offsets.append(offsets[-1] + len(part))
                    sha.update(len(part).to_bytes(8, "little") + part)  # so that no two corpora give the same bytes
        np.save(Path(folder) / OFFSETS, np.array(offsets, dtype=np.int64))
        return cls(folder), sha.hexdigest()

    def __len__(self) -> int:
        return len(self._offsets) // 3

    def __getitem__(self, position: int) -> Passage:  # pyright: ignore[reportIncompatibleMethodOverride]  # no slices
        if position >= len(self):
            raise IndexError(f"passage {position} of {len(self)}")
        starts = self._offsets[3 * position : 3 * position + 4].tolist()
        return Passage(*(self._text(start, end) for start, end in pairwise(starts)))

    @cached_property
    def positions(self) -> dict[str, int]:
        """The positions of the passages by their ids, which are all read at the first call."""
        starts, ends = self._offsets[:-1:3].tolist(), self._offsets[1::3].tolist()
        return {self._text(start, end): n for n, (start, end) in enumerate(zip(starts, ends, strict=True))}

    def _text(self, start: int, end: int) -> str:
        return self._bytes[start:end].decode("utf-8", "surrogatepass")


def scored_hits(passages: Any, positions: Positions, scores: npt.NDArray[np.floating], k: int) -> list[Hit]:
    """The passages with the `k` best scores, rounded to `SCORE_DECIMALS`, as hits; other passages are not read."""
    scores = np.round(scores.astype(np.float64), SCORE_DECIMALS)
    if len(scores) > k:
        chosen = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
        positions, scores = positions[chosen], scores[chosen]
    return rank_hits(((passages[int(p)], float(score)) for p, score in zip(positions, scores, strict=True)), k)
