"""Postings: the passages that contain each word, and their BM25 scores for it, in memory-mapped arrays.

Building takes bounded memory (`knowgap.retrieval.portions`). Words are identified by 64-bit hashes, so that no
vocabulary is kept.

A search is exact, but reads only parts of the lists of frequent words (MaxScore: Turtle and Flood 1995, "Query
evaluation: strategies and optimizations"): it skips passages whose words cannot lift them among the best.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.index.passage_store import Positions, hash_text
from knowgap.retrieval.portions import ArrayFile, Portions
from knowgap.storage.progress import Progress, no_progress

Scores = npt.NDArray[np.float32]

_WORDS_AT_ONCE = 1 << 22  # words of a portion of passages
_POSTINGS_AT_ONCE = 1 << 22  # postings that are merged at once, unless a single word has more
_ROUNDING = 1e-5  # the relative error of a sum of scores in single precision


class Postings:
    """The postings in a folder, as these arrays.

    - `words.npy`: the hashes of the words, ascending; `starts.npy`: where the postings of each begin.
    - `highest.npy`: the highest score that each word gives.
    - `passages.npy`, `scores.npy`: the postings, word after word; the passages of a word are ascending.
    """

    def __init__(self, folder: Path, *, in_memory: bool = False) -> None:
        mode = None if in_memory else "r"
        self._words, self._starts, self._highest, self._passages, self._scores = (
            np.load(folder / f"{name}.npy", mmap_mode=mode, allow_pickle=False)
            for name in ("words", "starts", "highest", "passages", "scores")
        )

    @staticmethod
    def build(
        documents: Iterable[Sequence[str]],
        folder: Path,
        *,
        k1: float,
        b: float,
        total: int,
        progress: Progress = no_progress,
    ) -> None:
        """Write the postings of `total` passages, given as their words with repetitions, to an existing folder.

        The temporary files in it take 6 bytes for each posting, and are removed.
        """
        portions = Portions(folder, 2**64, [np.int32, np.uint16])
        try:
            words = _Words(portions)
            for count, document in enumerate(documents, start=1):
                words.add(document)
                if count % 10_000 == 0 or count == total:
                    progress(count, total, "reading words")
            words.end()
            _merge(portions, np.array(words.lengths, dtype=np.int32), folder, k1, b, progress)
        finally:
            portions.remove()

    def search(
        self, words: Sequence[str], k: int, allowed: Positions | None = None
    ) -> tuple[npt.NDArray[np.int32], Scores]:
        """The passages that may be among the `k` best, in any order, and their scores.

        Passages that tie with the k-th best are included. Passages without any of the words are not. A word that the
        query repeats counts each time. `allowed` are the only positions to consider, ascending.
        """
        lists = []
        for word, times in Counter(words).items():
            number = int(np.searchsorted(self._words, np.uint64(hash_text(word))))
            if number < len(self._words) and self._words[number] == hash_text(word):
                lists.append((np.float32(times * self._highest[number]), number, np.float32(times)))
        lists.sort(reverse=True)
        rest = np.cumsum([highest for highest, _, _ in lists[::-1]], dtype=np.float64)[::-1]
        found, scores, done = np.empty(0, np.int32), np.empty(0, np.float32), 0
        if allowed is not None:
            found, scores = allowed.astype(np.int32), np.zeros(len(allowed), np.float32)
        elif lists:
            found, scores, done = self._gather(lists, rest, k)
            order = np.argsort(found)
            found, scores = found[order], scores[order]
        for number in range(done, len(lists)):
            if allowed is None and len(found) > k:
                likely = scores + rest[number] >= _kth(scores, k) * (1 - _ROUNDING)
                found, scores = found[likely], scores[likely]
            self._look_up(lists[number], found, scores)
        return found[scores > 0], scores[scores > 0]

    def _gather(
        self, lists: Sequence[tuple[np.float32, int, np.float32]], rest: npt.NDArray[np.float64], k: int
    ) -> tuple[npt.NDArray[np.int32], Scores, int]:
        """Read whole lists until the rest cannot add a passage to the `k` best; also return how many were read."""
        last = max(int(self._passages[self._starts[number + 1] - 1]) for _, number, _ in lists)
        sums, parts, done = np.zeros(last + 1, np.float32), [], 0
        for done, (_, number, times) in enumerate(lists, start=1):
            passages, scores = self._list(number)
            parts.append(passages[sums[passages] == 0])
            sums[passages] += times * scores
            found = np.concatenate(parts)
            if done < len(lists) and len(found) >= k and rest[done] < _kth(sums[found], k) * (1 - _ROUNDING):
                break
        found = np.concatenate(parts)
        return found, sums[found], done

    def _look_up(self, item: tuple[np.float32, int, np.float32], found: npt.NDArray[np.int32], scores: Scores) -> None:
        """Add the scores of a word to those of the passages in `found`, which are ascending."""
        _, number, times = item
        passages, given = self._list(number)
        places = np.minimum(np.searchsorted(passages, found), len(passages) - 1)
        has = passages[places] == found
        scores[has] += times * given[places[has]]

    def _list(self, number: int) -> tuple[npt.NDArray[np.int32], Scores]:
        rows = slice(int(self._starts[number]), int(self._starts[number + 1]))
        return self._passages[rows], self._scores[rows]


def _kth(scores: Scores, k: int) -> float:
    return float(np.partition(scores, len(scores) - k)[len(scores) - k])


class _Words:
    """Collects the words of passages, and writes them as portions."""

    def __init__(self, portions: Portions) -> None:
        self.lengths = array("i")  # how many words each passage has
        self._portions, self._ids, self._words, self._first = portions, dict[str, int](), array("i"), 0

    def add(self, words: Sequence[str]) -> None:
        """Add the words of the next passage."""
        ids = self._ids
        self._words.extend([ids.setdefault(word, len(ids)) for word in words])
        self.lengths.append(len(words))
        if len(self._words) >= _WORDS_AT_ONCE:
            self.end()

    def end(self) -> None:
        """Write the words collected since the last portion as a portion."""
        hashes = np.fromiter(map(hash_text, self._ids), dtype=np.uint64, count=len(self._ids))
        order = np.argsort(hashes)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        lengths = np.array(self.lengths[self._first :], dtype=np.int64)
        pairs = ranks[np.frombuffer(self._words, dtype=np.int32)] if self._words else ranks[:0]
        pairs *= max(1, len(lengths))
        pairs += np.repeat(np.arange(len(lengths)), lengths)
        pairs, times = np.unique(pairs, return_counts=True)
        owners, passages = np.divmod(pairs, max(1, len(lengths)))
        counts = np.bincount(owners, minlength=len(order))
        self._portions.write(hashes[order], counts, passages + self._first, np.minimum(times, 65_535))
        self._ids, self._words, self._first = {}, array("i"), len(self.lengths)


def _merge(
    portions: Portions, lengths: npt.NDArray[np.int32], folder: Path, k1: float, b: float, progress: Progress
) -> None:
    """Merge the portions, score the postings and write the arrays."""
    norms = (k1 * (1 - b + b * lengths / max(float(lengths.mean()), 1e-9))).astype(np.float32)
    words: list[npt.NDArray[np.uint64]] = [np.empty(0, np.uint64)]
    sizes: list[npt.NDArray[np.int64]] = [np.zeros(1, np.int64)]
    highest: list[npt.NDArray[np.float32]] = [np.empty(0, np.float32)]
    with (
        ArrayFile(folder / "passages.npy", np.int32) as to_passages,
        ArrayFile(folder / "scores.npy", np.float32) as to_scores,
    ):
        for done, hashes, frequencies, (passages, times) in portions.merge(_POSTINGS_AT_ONCE):
            idf = np.log(1 + (len(lengths) - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32)
            scores = times.astype(np.float32)
            scores /= scores + norms[passages]
            scores *= np.repeat(idf, frequencies)
            to_passages.write(passages)
            to_scores.write(scores)
            words.append(hashes)
            sizes.append(frequencies)
            highest.append(np.maximum.reduceat(scores, np.cumsum(frequencies) - frequencies) if len(scores) else scores)
            progress(round(100 * done), 100, "weighing words")
    np.save(folder / "words.npy", np.concatenate(words))
    np.save(folder / "starts.npy", np.cumsum(np.concatenate(sizes)))
    np.save(folder / "highest.npy", np.concatenate(highest))
