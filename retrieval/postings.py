"""Postings: which passages contain each word, and how often. BM25 weighs them at search, over all segments of an index.

The scoring is Lucene's variant (Kamphuis et al. 2020, "Which BM25 do you mean?") with the constants that Pyserini uses
for Wikipedia passages. Words are lower-cased and stemmed; a character of a script without spaces is a word. A title
counts twice, and the function words of an English query are left out: both find more of the gold paragraphs of
HotpotQA, 2WikiMultihopQA and StrategyQA. Words are identified by 64-bit hashes, so that no vocabulary is kept.
"""

from __future__ import annotations

import hashlib
import shutil
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.passage import Passage
from knowgap.retrieval.words import Analyzer

Scores = npt.NDArray[np.float32]

K1, B = 0.9, 0.4
"""How soon repetitions of a word in a passage stop to count, from 0; and how far long passages are penalized, to 1."""

_TITLE_WEIGHT = 2
_ARRAYS = ("words", "starts", "passages", "times", "lengths")
_MOST_TIMES = 65_535


def hash_text(text: str) -> int:
    """A 64-bit hash of a text that is the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Postings:
    """The postings of some passages, as arrays that are memory-mapped if they are in a folder.

    Attributes:
        words: the hashes of the words, uint64, ascending.
        starts: where the postings of each word begin, int64 [words + 1].
        passages: the passages of each word, ascending, word after word, int32 [postings].
        times: how often each of them has the word, uint16 [postings].
        lengths: how many words each passage has, int32 [passages].
    """

    words: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    passages: npt.NDArray[np.int32]
    times: npt.NDArray[np.uint16]
    lengths: npt.NDArray[np.int32]

    @classmethod
    def count(cls, documents: Iterable[Sequence[str]]) -> Postings:
        """Count the words of passages, given with their repetitions. Takes some 25 bytes of memory for each posting."""
        numbers = dict[str, int]()
        owners, passages, times, lengths = array("i"), array("i"), array("H"), array("i")
        for document in documents:
            for word, count in Counter(document).items():
                owners.append(numbers.setdefault(word, len(numbers)))
                passages.append(len(lengths))
                times.append(min(count, _MOST_TIMES))
            lengths.append(len(document))
        hashes = np.fromiter(map(hash_text, numbers), dtype=np.uint64, count=len(numbers))
        order = np.argsort(hashes)
        ranks = np.empty(len(order), dtype=np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        ranked = ranks[np.frombuffer(owners, dtype=np.int32)] if owners else ranks[:0]
        by_word = np.argsort(ranked, kind="stable")
        return cls(
            hashes[order],
            np.concatenate([[0], np.cumsum(np.bincount(ranked, minlength=len(order)))]).astype(np.int64),
            np.array(passages, dtype=np.int32)[by_word],
            np.array(times, dtype=np.uint16)[by_word],
            np.array(lengths, dtype=np.int32),
        )

    def save(self, folder: Path) -> None:
        """Write the arrays to a new folder."""
        folder.mkdir()
        for name in _ARRAYS:
            np.save(folder / f"{name}.npy", getattr(self, name))

    @classmethod
    def open(cls, folder: Path) -> Postings:
        """Map the arrays of a folder."""
        return cls(*(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS))

    def of(self, word: int) -> slice:
        """Where the postings of a word are, given by its hash."""
        first, last = (int(np.searchsorted(self.words, np.uint64(word), side)) for side in ("left", "right"))
        return slice(int(self.starts[first]), int(self.starts[last]))


def write_words(passages: Iterable[Passage], folder: Path, stemmer: str | None) -> None:
    """Write the postings of passages to a folder."""
    analyzer = Analyzer(stemmer)
    shutil.rmtree(folder, ignore_errors=True)  # a killed build may have begun it
    Postings.count(analyzer(each.title) * _TITLE_WEIGHT + analyzer(each.text) for each in passages).save(folder)


class WeighedWords:
    """The words of an index, weighed by BM25 as if its segments were one.

    Args:
        parts: the postings of each segment.
        alive: which passages are not deleted, counted through the segments, [passages].
    """

    def __init__(self, parts: Sequence[Postings], alive: npt.NDArray[np.bool_]) -> None:
        self._parts, self._alive = parts, alive
        self._count = int(alive.sum())
        lengths = np.concatenate([part.lengths for part in parts])
        average = max(float(lengths[alive].mean()) if self._count else 0.0, 1e-9)
        self._norms = (K1 * (1 - B + B * lengths / average)).astype(np.float32)
        self._starts = np.cumsum([0, *(len(part.lengths) for part in parts)]).tolist()

    def scores(self, words: Sequence[str]) -> Scores:
        """The BM25 score of each passage, 0 for deleted ones and those without any of the words. [passages].

        A word that the query repeats counts each time.
        """
        return self._weigh(words, 1)[0]

    def shares(self, words: Sequence[str]) -> Scores:
        """The share of a query's words that each passage has, from 0 to 1. [passages].

        A word counts by the square of its rarity, so that one that few passages have outweighs several that many have.
        Words that no passage has do not count.
        """
        scores, most = self._weigh(words, 2)
        return scores * np.float32(1 / most if most else 0)

    def _weigh(self, words: Sequence[str], power: int) -> tuple[Scores, float]:
        """Scores in which rarities (inverse document frequencies) are raised to a power; and the sum of the powers."""
        scores, most = np.zeros(len(self._alive), dtype=np.float32), 0.0
        for word, repeated in Counter(words).items():
            passages, times = self._postings_of(hash_text(word))
            if len(passages):
                rarity = np.log(1 + (self._count - len(passages) + 0.5) / (len(passages) + 0.5)) ** power
                counted = times.astype(np.float32)
                scores[passages] += np.float32(repeated * rarity) * counted / (counted + self._norms[passages])
                most += float(repeated * rarity)
        return scores, most

    def _postings_of(self, word: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16]]:
        """The passages that have a word, given by its hash, counted through the segments; and how often."""
        passages, times = [], []
        for part, start in zip(self._parts, self._starts, strict=False):
            rows = part.of(word)
            passages.append(part.passages[rows].astype(np.int64) + start)
            times.append(part.times[rows])
        found, counts = np.concatenate(passages), np.concatenate(times)
        left = self._alive[found]
        return found[left], counts[left]
