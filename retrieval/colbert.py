"""A ColBERT index: late interaction over the token vectors of passages (Khattab and Zaharia 2020)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError, DataError, UnknownName, ValueOutOfBounds
from knowgap.retrieval.centroids import CENTROIDS, TOKEN_CODES, CentroidIndex
from knowgap.retrieval.checkpoint import EMBEDDED, checkpoint_digest, resolve_checkpoint, write_embedded_checkpoint
from knowgap.retrieval.encoder import TokenEncoder, choose_device
from knowgap.retrieval.encoding import STATE, EncodingState, encode_corpus
from knowgap.retrieval.manifest import Manifest, Progress, build_index
from knowgap.retrieval.maxsim import VECTORS, TokenVectors
from knowgap.retrieval.passage import Hit, Passage
from knowgap.retrieval.residuals import ResidualVectors
from knowgap.retrieval.store import PassageStore, Where, check_k, scored_hits, select_positions

__all__ = ["QUALITIES", "ColBERTIndex", "SearchSettings"]


@dataclass(frozen=True)
class SearchSettings:
    """How an index of many passages is searched: more of each finds more and takes longer.

    Args:
        cells: how many clusters of token vectors each token of the query looks into, from 1; twice as many where more
            than 20 hits are asked for.
        rescored: how many of the passages found there are scored exactly, from 1.
        rescored_per_hit: or this many for each hit that is asked for, if that is more.

    Raises:
        ValueOutOfBounds: a value below 1.
    """

    cells: int
    rescored: int
    rescored_per_hit: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueOutOfBounds(f"{name} = {value!r}: must be at least 1")


QUALITIES: dict[str, SearchSettings | None] = {
    "fast": SearchSettings(cells=1, rescored=64, rescored_per_hit=4),
    "balanced": SearchSettings(cells=2, rescored=256, rescored_per_hit=10),
    "exact": None,
}
"""What the names of `quality` stand for; None scores every passage."""

_CHECKPOINT = "checkpoint"
_QUERIES_AT_ONCE = 32
_WORTH_CLUSTERING = 400_000  # token vectors; fewer are scored in less time than it takes to choose among them
_EXACT_FILTER = 20_000  # passages that a filter admits; so few are all scored


class ColBERTIndex:
    """An index of passages by the vectors of their tokens. Made by `build` or `open`; usable from many threads."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        *,
        checkpoint: str | Path | None,
        device: str | None,
        quality: str | SearchSettings,
    ) -> None:
        self.path, self.manifest = path, manifest
        self._checkpoint, self._device, self._quality = checkpoint, device, _settings(quality)
        self._store = PassageStore(path)
        self._lock = threading.Lock()
        self._loaded: tuple[TokenEncoder, TokenVectors, CentroidIndex | None] | None = None

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        *,
        checkpoint: str | Path | None = None,
        dim: int = 128,
        nbits: int = 16,
        clustered: bool | None = None,
        device: str | None = None,
        quality: str | SearchSettings = "balanced",
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> ColBERTIndex:
        """Encode passages and write an index; or go on where an earlier call with the same arguments was interrupted.

        Args:
            passages: what to index; read once. Title and text are encoded together.
            path: the folder; where the same index already stands there, it is opened as it is.
            checkpoint: a ColBERT checkpoint by folder or hub name (`colbert-ir/colbertv2.0`). None makes one from the
                embedded MiniLM encoder and the corpus, which needs no network, and keeps it inside the index.
            dim: width of the token vectors, for the embedded checkpoint: a multiple of 16 up to 384.
            nbits: bits per dimension of a stored vector. 16 keeps the vectors as they are; 1, 2 or 4 keep a centroid
                and a residual of so many bits, which takes a sixteenth to a quarter of the space and costs recall.
            clustered: whether to cluster the token vectors, so that a search need not score every passage; None does
                so from 400,000 token vectors on.
            device: where to encode; None takes a CUDA GPU where there is one.
            quality: see `open`.
            overwrite: replace another index that stands at the path.
            progress: called after each chunk of passages.

        Raises:
            DataError: there are no passages, or two with the same id.
            CheckpointError: no such checkpoint, or a damaged one.
            ValueOutOfBounds: dim, nbits, device or quality.
            UsageError: another index stands at the path.
        """
        if nbits not in (1, 2, 4, 16):
            raise ValueOutOfBounds(f"nbits = {nbits!r}: 1, 2, 4 or 16")
        device, quality = choose_device(device), quality if isinstance(quality, SearchSettings) else str(quality)
        _settings(quality)
        with build_index(path, overwrite=overwrite) as workshop:
            folder = workshop.folder
            store, digest = PassageStore.build(passages, folder)
            if not len(store):
                raise DataError("there are no passages to index")
            state = EncodingState.resume(workshop, {"corpus": digest, "checkpoint": str(checkpoint), "dim": dim})
            if checkpoint is None:
                if not state.checkpoint:
                    if progress:
                        progress(0, 1, "fitting the embedded checkpoint")
                    write_embedded_checkpoint(store, folder / _CHECKPOINT, dim=dim)
                    state.save(checkpoint=checkpoint_digest(folder / _CHECKPOINT))
                where = folder / _CHECKPOINT
            else:
                where = resolve_checkpoint(checkpoint)
                if state.checkpoint != (found := checkpoint_digest(where)):
                    state.save(checkpoint=found, passages=0, tokens=0)
            name = EMBEDDED if checkpoint is None else str(checkpoint)
            encoder = TokenEncoder(where, device=device)
            if nbits < 16 and encoder.dim % (8 * nbits):
                raise ValueOutOfBounds(
                    f"nbits = {nbits}: vectors of width {encoder.dim} cannot be packed so; try 1 or 2"
                )
            settings = {"dim": encoder.dim, "nbits": nbits, "clustered": clustered}
            manifest = Manifest("colbert", len(store), digest, settings, {"name": name, "digest": state.checkpoint})
            if not workshop.stands(manifest):
                encode_corpus(store, encoder.encode_passages, encoder.dim, folder, state, progress)
                if not state.organised:
                    _organise(folder, encoder.dim, nbits, clustered, progress)
                    state.save(organised=True)
                if nbits < 16:
                    (folder / VECTORS).unlink(missing_ok=True)
            workshop.finish(manifest, leave_out=[STATE])
        return cls.open(path, checkpoint=checkpoint, device=device, quality=quality)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        checkpoint: str | Path | None = None,
        device: str | None = None,
        quality: str | SearchSettings = "balanced",
    ) -> ColBERTIndex:
        """Open an index that `build` wrote. The encoder is loaded at the first search.

        Args:
            path: its folder.
            checkpoint: where its checkpoint is now, if that is neither inside the index nor where it was.
            device: where to encode and score; None takes a CUDA GPU where there is one.
            quality: how thoroughly to search, unless a search says otherwise: `fast`, `balanced`, `exact`, or
                settings of one's own. Small indexes, and those that fit on a GPU, are always searched exactly.

        Raises:
            IndexMissing, IndexForeign, IndexDamaged: see `Manifest.read`.
            UnknownName: no such quality.
        """
        manifest = Manifest.read(path, engine="colbert")
        return cls(Path(path), manifest, checkpoint=checkpoint, device=device, quality=quality)

    def __len__(self) -> int:
        return len(self._store)

    @property
    def encoder(self) -> TokenEncoder:
        """The checkpoint of the index, loaded; its digest is compared with the manifest's when that happens.

        Raises:
            CheckpointError: it is absent, or not the one that encoded the passages.
        """
        return self._parts()[0]

    def _parts(self) -> tuple[TokenEncoder, TokenVectors, CentroidIndex | None]:
        with self._lock:
            if self._loaded is None:
                recorded = self.manifest.checkpoint
                inside = self.path / _CHECKPOINT
                folder = resolve_checkpoint(
                    self._checkpoint or (inside if recorded["name"] == EMBEDDED else recorded["name"])
                )
                if checkpoint_digest(folder) != recorded["digest"]:
                    raise CheckpointError(
                        f"{folder}: not the checkpoint that encoded {self.path} ({recorded['name']}); "
                        "give that one, or build the index again"
                    )
                encoder = TokenEncoder(folder, device=self._device)
                centroids = CentroidIndex(self.path) if (self.path / CENTROIDS).exists() else None
                vectors = None
                if centroids is not None and self.manifest.settings["nbits"] < 16:
                    vectors = ResidualVectors(self.path, centroids.centroids, self.manifest.settings["nbits"])
                tokens = TokenVectors.open(self.path, encoder.dim, vectors=vectors, device=encoder.device)
                self._loaded = encoder, tokens, centroids
            return self._loaded

    def search(
        self,
        queries: Sequence[str],
        k: int,
        *,
        ids: Collection[str] | None = None,
        where: Where | None = None,
        quality: str | SearchSettings | None = None,
    ) -> list[list[Hit]]:
        """The `k` passages that match each query best.

        Args:
            queries: any strings; a blank one finds nothing, and of a long one the first 256 tokens count.
            k: at most this many hits, from 1.
            ids: search only the passages with these ids.
            where: search only the passages for which this is true.
            quality: see `open`.

        Returns:
            Hits with their exact MaxSim, however they were found.

        Raises:
            ValueOutOfBounds: k < 1.
            UnknownName: no such quality.
            CheckpointError: the checkpoint of the index is absent or was changed.
        """
        check_k(k)
        settings = self._quality if quality is None else _settings(quality)
        asked = [query for query in dict.fromkeys(queries) if query.strip()]
        found: dict[str, list[Hit]] = {}
        if asked:
            encoder, vectors, centroids = self._parts()
            allowed = select_positions(self._store, ids, where)
            if vectors.on_gpu or (allowed is not None and len(allowed) <= _EXACT_FILTER):
                centroids = None
            for start in range(0, len(asked), _QUERIES_AT_ONCE):
                batch = asked[start : start + _QUERIES_AT_ONCE]
                encoded = [encoder.encode_query(query) for query in batch]
                if settings is None or centroids is None:
                    scanned = [(allowed, rough) for rough in vectors.scan(encoded, allowed)]
                else:
                    scanned = [_narrow(query, k, settings, centroids, vectors, allowed) for query in encoded]
                for query, vector, (positions, rough) in zip(batch, encoded, scanned, strict=True):
                    found[query] = scored_hits(self._store, *vectors.best(vector, k, rough, positions), k)
        return [list(found.get(query, [])) for query in queries]

    def __copy__(self) -> ColBERTIndex:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ColBERTIndex:
        return self


def _settings(quality: str | SearchSettings) -> SearchSettings | None:
    if isinstance(quality, SearchSettings):
        return quality
    if quality not in QUALITIES:
        raise UnknownName.among("quality", quality, QUALITIES)
    return QUALITIES[quality]


def _organise(folder: Path, dim: int, nbits: int, clustered: bool | None, progress: Progress | None) -> None:
    """Cluster and compress the encoded vectors as the index is to have them."""
    tokens = TokenVectors.open(folder, dim)
    if clustered or nbits < 16 or (clustered is None and len(tokens.vectors) >= _WORTH_CLUSTERING):
        centroids = CentroidIndex.build(tokens, folder, progress=progress).centroids
        if nbits < 16:
            ResidualVectors.build(tokens.vectors, centroids, nbits, folder, progress=progress)
        else:
            (folder / TOKEN_CODES).unlink()


def _narrow(
    query: npt.NDArray[np.float32],
    k: int,
    settings: SearchSettings,
    centroids: CentroidIndex,
    vectors: TokenVectors,
    allowed: npt.NDArray[np.int64] | None,
) -> tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.float32]]:
    """Positions that the settings choose, and their rough scores; more cells are looked into where k need it."""
    total = len(vectors) if allowed is None else len(allowed)
    cells, limit = settings.cells * (2 if k > 20 else 1), max(settings.rescored, settings.rescored_per_hit * k)
    while cells < len(centroids):
        positions = centroids.candidates(query, cells, limit, allowed)
        if len(positions) >= min(k, total):
            return positions, vectors.scan([query], positions)[0]
        cells *= 4
    return allowed, vectors.scan([query], allowed)[0]
