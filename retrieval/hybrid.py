"""Several indexes searched as one by reciprocal rank fusion (Cormack, Clarke and Büttcher 2009).

The paper chose the constant 60 for fusing long TREC runs. The default here is 10: with it, the fusion of BM25, dense
and ColBERT search found more of the gold paragraphs of HotpotQA, 2WikiMultihopQA and StrategyQA by most measures.
`python benchmarks/run.py retrieval --parts gold` prints recall@2, @5, @10 and MRR with both.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from knowgap.errors import IndexFolderError, UsageError, ValueOutOfBounds
from knowgap.retrieval.colbert.checkpoint import checkpoint_window
from knowgap.retrieval.index.build import start_build
from knowgap.retrieval.index.engines import ENGINES, check_quality, engine_class, open_index, takes_quality
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import Where
from knowgap.retrieval.index.search_settings import Quality
from knowgap.retrieval.passage import Hit, NeverCopied, Passage, Retriever, check_k, rank_hits
from knowgap.storage.progress import Progress

CONSTANT, RRF_CONSTANT, DEPTH = 10, 60, 100


def fuse(
    lists: Sequence[Sequence[Hit]], k: int, *, weights: Sequence[float] | None = None, constant: float = CONSTANT
) -> list[Hit]:
    """Reciprocal rank fusion of ranked lists: the `k` passages with the highest sums of weight / (constant + rank).

    Each list has weight 1 unless `weights` is given. The larger the constant, the smaller the advantage of the first
    ranks; the paper uses `RRF_CONSTANT`, 60.
    """
    scores: dict[str, float] = {}
    passages: dict[str, Passage] = {}
    for hits, weight in zip(lists, weights or [1.0] * len(lists), strict=True):
        for hit in hits:
            passages[hit.passage.id] = hit.passage
            scores[hit.passage.id] = scores.get(hit.passage.id, 0.0) + weight / (constant + hit.rank)
    # Rounding keeps ties: sums of the same terms in different orders may differ in the last digit.
    return rank_hits(((passages[identifier], round(score, 12)) for identifier, score in scores.items()), k)


def _check_fusion(count: int, weights: Sequence[float], depth: int, constant: float) -> None:
    if not count or len(weights) != count:
        raise ValueOutOfBounds(f"weights = {weights!r}: one is needed for each of {count} retrievers")
    if min(weights) < 0 or not sum(weights):
        raise ValueOutOfBounds(f"weights = {weights!r}: none may be negative, and one must be above 0")
    if depth < 1 or constant < 0:
        raise ValueOutOfBounds(f"depth = {depth!r}, constant = {constant!r}: must be at least 1 and 0")


class HybridRetriever(NeverCopied):
    """Fuses the hits of several retrievers.

    Args:
        parts: the retrievers, over the same passages.
        weights: one for each part; None weights them equally.
        depth: how many hits of each part are fused, from 1; a search with a larger `k` fuses `k`.
        constant: see `fuse`.

    Raises:
        ValueOutOfBounds: there are no parts, a weight is negative, all weights are 0, depth < 1, or constant < 0.
    """

    def __init__(
        self,
        parts: Sequence[Retriever],
        *,
        weights: Sequence[float] | None = None,
        depth: int = DEPTH,
        constant: float = CONSTANT,
    ) -> None:
        self._parts: list[Any] = list(parts)
        self._weights = [1.0] * len(self._parts) if weights is None else list(weights)
        self._depth, self._constant = depth, constant
        _check_fusion(len(self._parts), self._weights, depth, constant)

    def missing_ids(self, ids: Sequence[str]) -> list[str]:
        """The ids that the index does not have; empty if no part can tell."""
        part = next((part for part in self._parts if hasattr(part, "missing_ids")), None)
        return part.missing_ids(ids) if part is not None else []

    def search(
        self, queries: Sequence[str], k: int, *, ids: Collection[str] | None = None, where: Where | None = None
    ) -> list[list[Hit]]:
        """The `k` passages with the highest fused score for each query; `ids` and `where` as in `BM25Index.search`.

        Raises:
            ValueOutOfBounds: k < 1.
        """
        check_k(k)
        filters = {name: value for name, value in (("ids", ids), ("where", where)) if value is not None}
        results = [part.search(queries, max(k, self._depth), **filters) for part in self._parts]
        return [fuse(lists, k, weights=self._weights, constant=self._constant) for lists in zip(*results, strict=True)]


class HybridIndex(HybridRetriever):
    """A folder with several indexes of the same passages, searched as one. Made by `build` or `open`.

    Attributes:
        quality: how thoroughly its ColBERT part is searched; None without such a part.
    """

    takes_quality: ClassVar[bool] = True
    window_of = staticmethod(checkpoint_window)

    def __init__(self, path: Path, manifest: Manifest, parts: Sequence[Any]) -> None:
        settings = manifest.settings
        super().__init__(parts, weights=settings["weights"], depth=settings["depth"], constant=settings["constant"])
        self.path, self.manifest = path, manifest
        self.quality = next((part.quality for part in parts if getattr(part, "takes_quality", False)), None)

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        *,
        parts: Mapping[str, Mapping[str, Any]] | Sequence[str] = ("bm25", "dense", "colbert"),
        weights: Sequence[float] | None = None,
        depth: int = DEPTH,
        constant: float = CONSTANT,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> HybridIndex:
        """Build an index with each engine; an interrupted build continues with the part at which it stopped.

        Args:
            passages: what to index; read once.
            path: the folder.
            parts: engine names; or engine name → arguments of its `build`.
            weights: see `HybridRetriever`.
            depth: see `HybridRetriever`.
            constant: see `HybridRetriever`.
            overwrite: replace another index at the path.
            progress: passed on to each part.

        Raises:
            UsageError: an unknown engine, or another index is at the path.
            ValueOutOfBounds: see `HybridRetriever`.
            KnowgapError: the `build` of a part raised it.
        """
        arguments = dict(parts) if isinstance(parts, Mapping) else {name: {} for name in parts}
        if unknown := [name for name in arguments if name not in ENGINES or name == "hybrid"]:
            raise UsageError(f"the engine {unknown[0]!r} cannot be fused; known are {', '.join(sorted(ENGINES))}")
        weights = [1.0] * len(arguments) if weights is None else list(weights)
        _check_fusion(len(arguments), weights, depth, constant)
        settings = {"parts": list(arguments), "weights": weights, "depth": depth, "constant": constant, "digests": {}}
        with start_build(path, overwrite=overwrite) as build:
            store = build.store(passages)
            for name, options in arguments.items():
                folder = build.folder / name
                _remove_unless(folder, build.corpus_digest)
                build_part = partial(engine_class(name).build, store, folder, progress=progress, **options)
                try:
                    part = build_part()
                except UsageError:
                    if not folder.exists():
                        raise
                    shutil.rmtree(folder)  # the interrupted build had other arguments
                    part = build_part()
                settings["digests"][name] = part.manifest.digest
            build.finish(build.manifest("hybrid", store, settings))
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path, *, quality: Quality | None = None, allow_hub: Collection[str] = ()) -> HybridIndex:
        """Open an index that `build` wrote.

        Args:
            path: its folder.
            quality: how thoroughly its ColBERT part is searched; None takes the default of `ColBERTIndex.open`.
            allow_hub: see `open_index`.

        Raises:
            IndexMissing, IndexForeign, IndexDamaged: see `Manifest.read`.
            UnknownName: there is no quality of that name.
            UsageError: a quality is given, and no part takes one.
        """
        manifest = Manifest.read(path, engine="hybrid")
        names = manifest.settings["parts"]
        check_quality(path, names, quality)
        parts = [
            open_index(Path(path) / name, quality=quality if takes_quality(name) else None, allow_hub=allow_hub)
            for name in names
        ]
        return cls(Path(path), manifest, parts)

    def __len__(self) -> int:
        return self.manifest.passages

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._parts[0])


def _remove_unless(folder: Path, digest: str) -> None:
    """Remove a part that an interrupted build left, unless it was built from the corpus with this digest."""
    with suppress(IndexFolderError):
        if Manifest.read(folder).corpus_digest == digest:
            return
    shutil.rmtree(folder, ignore_errors=True)
