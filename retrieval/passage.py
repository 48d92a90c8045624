"""Passages, hits, and the interface through which a program retrieves them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from typing_extensions import Self

from knowgap.errors import ValueOutOfBounds


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that can be retrieved and cited.

    Args:
        id: unique within its corpus.
        title: the article or document it comes from; may be empty.
        text: what it says, without the title.

    >>> import knowgap
    >>> str(knowgap.Passage("orle", "Orle", "A town on the Isk."))
    'Orle: A town on the Isk.'
    """

    id: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.title}: {self.text}" if self.title else self.text

    def to_dict(self) -> dict[str, str]:
        """The passage as a JSON-ready mapping."""
        return {"id": self.id, "title": self.title, "text": self.text}


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage retrieved for a query.

    Args:
        passage: the passage.
        score: the engine's own score; higher is better, comparable within one list only.
        rank: position in its list, from 1.

    >>> import knowgap
    >>> knowgap.Hit(knowgap.Passage("orle", "Orle", "A town."), score=2.5, rank=1).passage.id
    'orle'
    """

    passage: Passage
    score: float
    rank: int


@runtime_checkable
class Retriever(Protocol):
    """The interface through which a program searches an index.

    `search` takes a batch of queries and is thread-safe. Each list holds at most `k` hits, with descending scores, ties
    broken by passage id, and no passage twice. The retrievers of this package are subclasses of `NeverCopied`.

    >>> import knowgap
    >>> towns = [knowgap.Passage("orle", "Orle", "A town on the Isk.")]
    >>> index = knowgap.build_index(towns, "towns", engine="bm25")
    >>> isinstance(index, knowgap.Retriever)
    True
    >>> [hits] = index.search(["Which town is on the Isk?"], k=5)
    >>> hits[0].passage.title
    'Orle'
    """

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The `k` best passages for each of the `queries`, one list per query, in their order."""
        ...


RetrieverLike = Retriever | str | Path
"""A retriever, the folder of an index, or the http(s) URL of an index server."""


def part_id(document: str, digest: str, number: int = 1) -> str:
    """The id of a passage that is a part of a document: `document#` and the first ten digits of the passage's digest.

    The second of several equal parts also ends in `-2`, the third in `-3`, and so on.
    """
    return f"{document}#{digest[:10]}" + (f"-{number}" if number > 1 else "")


def document_id(passage_id: str) -> str | None:
    """The id of the document of which a passage is a part; None if the id is not one that `part_id` makes."""
    part = _PART.search(passage_id)
    return passage_id[: part.start()] if part else None


def gold_name(passage_id: str, gold: Collection[str]) -> str | None:
    """The gold id that names a passage, which is its own id or that of its document; None if neither is gold."""
    if passage_id in gold:
        return passage_id
    document = document_id(passage_id)
    return document if document in gold else None


_PART = re.compile(r"#[0-9a-f]{10}(?:-\d+)?\Z")


class NeverCopied:
    """A base class of retrievers: a copy is the same object, because optimizers deep-copy programs.

    An index in a folder is pickled as its path, and opened again when unpickled.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        index: Any = self
        if getattr(index, "path", None) is None or not hasattr(type(index), "open"):
            return super().__reduce_ex__(protocol)
        return type(index).open, (Path(index.path).resolve(),)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class Searcher(NeverCopied, ABC):
    """A base class of retrievers, which search for each distinct query once."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The `k` passages that match each query best.

        Args:
            queries: any strings; a blank one has no hits, and an encoder reads only the beginning of a long one.
            k: at most this many hits, from 1.

        Raises:
            ValueOutOfBounds: k < 1.
            CheckpointError: the encoder of the index is absent or was changed.
            IndexMissing: the index is on a server, and none answers.
            IndexFolderError: such a server refuses the search, or its answer does not hold passages.
        """
        if k < 1:
            raise ValueOutOfBounds(f"k = {k!r}: the number of passages must be an integer from 1")
        distinct = [query for query in dict.fromkeys(queries) if query.strip()]
        hits = dict(zip(distinct, self._find(distinct, k), strict=True)) if distinct else {}
        return [list(hits.get(query, [])) for query in queries]

    @abstractmethod
    def _find(self, queries: Sequence[str], k: int) -> Iterable[list[Hit]]:
        """The hits of each query; `queries` are distinct, and none is blank."""


_RRF_CONSTANT = 60
SCORE_DECIMALS = 4
"""The decimals of what an engine's model computes in single precision: cosines, sums of some dozen, logits.

From one processor to the next these differ by 1e-7 to 1e-5, because sums are taken in another order; the passages that
compete for a rank, by some thousandths or more. Rounding keeps equal passages equal, so that their ids decide.
"""


def encodable(texts: Iterable[str]) -> list[str]:
    """Texts for a tokenizer or a server, with a question mark for half of an emoji, which UTF-8 cannot hold."""
    return [text.encode("utf-8", "replace").decode() for text in texts]


def rank_hits(scored: Iterable[tuple[Passage, float]], k: int) -> list[Hit]:
    """The `k` best scored passages as hits: best score first, ties by id, each passage once, with its best score."""
    best: dict[str, tuple[Passage, float]] = {}
    for passage, score in scored:
        if passage.id not in best or score > best[passage.id][1]:
            best[passage.id] = (passage, score)
    ordered = sorted(best.values(), key=lambda pair: (-pair[1], pair[0].id))[:k]
    return [Hit(passage, float(score), rank) for rank, (passage, score) in enumerate(ordered, start=1)]


def fuse(lists: Sequence[Sequence[Hit]], k: int) -> list[Hit]:
    """Reciprocal rank fusion of ranked lists: the `k` passages with the highest sums of 1 / (60 + rank).

    Cormack, Clarke and Büttcher 2009.
    """
    scores: dict[str, float] = {}
    passages: dict[str, Passage] = {}
    for hits in lists:
        for hit in hits:
            passages[hit.passage.id] = hit.passage
            scores[hit.passage.id] = scores.get(hit.passage.id, 0.0) + 1 / (_RRF_CONSTANT + hit.rank)
    # Rounding keeps ties: sums of the same terms in different orders may differ in the last digit.
    return rank_hits(((passages[identifier], round(score, 12)) for identifier, score in scores.items()), k)
