"""Late interaction in Qdrant, for indexes that are too large for one machine.

Each passage is a point with two vectors: `tokens`, its token vectors, which Qdrant compares by MaxSim and keeps on disk
in 16 bits; and `pooled`, their mean, in an HNSW graph. A search finds the nearest pooled vectors and scores their
passages by MaxSim, in one request.
"""

from __future__ import annotations

import os
import shutil
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from knowgap.errors import (
    DataError,
    IndexDamaged,
    IndexFolderError,
    IndexMissing,
    MissingDependency,
    UsageError,
    is_address,
    shorten,
)
from knowgap.retrieval.colbert import TokenEncoder
from knowgap.retrieval.documents.sources import batches
from knowgap.retrieval.index.base import Build, Index
from knowgap.retrieval.index.manifest import FIRST_SEGMENT, Manifest, Segment
from knowgap.retrieval.passage import SCORE_DECIMALS, Hit, Passage, rank_hits
from knowgap.storage.files import json_digest

try:
    from qdrant_client import QdrantClient, models
    from qdrant_client.http.exceptions import ApiException
except ImportError as error:
    raise MissingDependency("qdrant-client is not installed; `pip install 'knowgap[qdrant]'`") from error

_AT_ONCE = 64  # passages in a request
_POOLED = 1000  # passages chosen by their pooled vectors, at least
_TIES = 16  # hits asked for beyond k, so that equal scores at the cut are ordered by id


class QdrantIndex(Index):
    """An index in a Qdrant collection. Its encoder is as for `ColBERTIndex`.

    The environment variable QDRANT_URL names the server, `https://host:6333`; or a folder, for the engine in
    qdrant-client itself. The setting `collection` is the name of the collection, which `overwrite` replaces. The folder
    of the index holds the manifest and the embedded checkpoint.

    Raises:
        IndexFolderError: another collection of that name exists at a build.
        IndexDamaged: there is no such collection when the index is opened.
        UsageError, IndexMissing, IndexFolderError: see `Points`.
    """

    engine: ClassVar[str] = "qdrant"
    encoders: ClassVar[str] = "knowgap.retrieval.colbert:TokenEncoder"
    options: ClassVar[dict[str, Any]] = {"collection": "knowgap"}

    def __init__(self, path: Path, encoder: Any = None) -> None:
        super().__init__(path, encoder)
        self.manifest = Manifest.read(path, engine=self.engine)
        self.points = Points(self.manifest.settings["collection"])
        weakref.finalize(self, self.points.client.close)  # when the last search has ended, too
        if not self.points.exists:
            self.close()
            raise IndexDamaged(f"{path}: its collection {self.points.name!r} does not exist; build the index again")

    @classmethod
    def _write(cls, build: Build) -> None:
        store, points = build.store, Points(build.manifest.settings["collection"])
        with closing(points.client):
            if not build.resumed:
                points.create(build.encoder.dim, overwrite=build.overwrite)
            build.begin()
            done = points.ask("count").count // _AT_ONCE * _AT_ONCE
            for batch in batches((store[n] for n in range(done, len(store))), _AT_ONCE):
                build.report(done, len(store), "encoding passages")
                points.upload(batch, build.encoder)
                done += len(batch)
        shutil.rmtree(build.folder / FIRST_SEGMENT)  # the points hold the passages

    def __len__(self) -> int:
        return self.points.ask("count").count

    def _find(self, queries: Sequence[str], k: int) -> Iterator[list[Hit]]:
        options: dict[str, Any] = {"using": "tokens", "limit": k + _TIES, "with_payload": True}
        for query in queries:
            vectors = self.encoder.encode_query(query)
            mean = vectors.mean(axis=0).tolist()
            options["prefetch"] = models.Prefetch(query=mean, using="pooled", limit=max(_POOLED, 10 * k))
            found = self.points.ask("query_points", query=vectors.tolist(), **options).points
            scored = ((Passage(**point.payload), round(point.score, SCORE_DECIMALS)) for point in found)
            yield rank_hits(scored, k)

    def add(self, passages: Iterable[Passage], *, replace: bool = False) -> int:
        """Add passages as `FolderIndex.add` does, and return how many; raises `DataError` for an id in use."""
        new = list(passages)
        used = set() if replace else {*self._known(passage.id for passage in new)}
        for passage in new:
            if passage.id in used:
                raise DataError(f"the id {passage.id!r} is already in use; ids must be unique", field="id")
            used.add(passage.id)
        for batch in batches(new, _AT_ONCE):
            self.points.upload(batch, self.encoder)
        return self._changed([[passage.id, passage.title, passage.text] for passage in new])

    def delete(self, ids: Iterable[str]) -> int:
        """Delete passages by id, and return how many the index had."""
        known = self._known(ids)
        if known:
            self.points.ask("delete", [*known.values()])
        return self._changed(sorted(known))

    def _known(self, ids: Iterable[str]) -> dict[str, str]:
        """The points of passages by the ids that the index has."""
        names = [_point_id(name) for name in sorted(set(ids))]
        return {record.payload["id"]: record.id for record in self.points.ask("retrieve", names)}

    def _changed(self, content: list[Any]) -> int:
        """Update the number of passages and the digest of all changes in the manifest."""
        if content:
            old = Manifest.parse(self.path)
            segment = Segment(FIRST_SEGMENT, len(self), json_digest([old.corpus_digest, content]))
            self.manifest = replace(old, segments=(segment,), changes=old.changes + 1)
            self.manifest.write(self.path)
        return len(content)

    def close(self) -> None:
        """Close the connection."""
        self.points.client.close()


class Points:
    """A collection on the server that QDRANT_URL names, which gets the key in QDRANT_API_KEY; or in a folder.

    Raises:
        UsageError: QDRANT_URL is not set.
        IndexMissing: no server answers, also later.
        IndexFolderError: the folder is in use.
    """

    def __init__(self, name: str) -> None:
        self.name, self.url = name, os.environ.get("QDRANT_URL", "")
        key = os.environ.get("QDRANT_API_KEY") or None
        if not self.url:
            raise UsageError("set QDRANT_URL to the address of the Qdrant server, such as https://HOST:6333")
        where: dict[str, Any] = {"url": self.url, "api_key": key} if is_address(self.url) else {"path": self.url}
        try:
            self.client = QdrantClient(**where, check_compatibility=False)
        except RuntimeError as error:
            raise IndexFolderError(f"{self.url} cannot be opened: {shorten(str(error), 200)}") from error
        self.exists = bool(self.ask("collection_exists"))

    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the client on the collection."""
        try:
            return getattr(self.client, method)(self.name, *arguments, **options)
        except (ApiException, ConnectionError) as error:
            raise IndexMissing(f"{self.url}: Qdrant does not answer ({shorten(error, 200)})") from error

    def create(self, dim: int, *, overwrite: bool) -> None:
        """Create the collection; raises `IndexFolderError` if it exists and is not to be overwritten."""
        if self.exists and not overwrite:
            raise IndexFolderError(f"the collection {self.name!r} already exists; choose another, or --overwrite")
        self.ask("delete_collection")
        tokens = models.VectorParams(
            size=dim,
            distance=models.Distance.DOT,  # a query's vectors carry weights, which the cosine would undo
            datatype=models.Datatype.FLOAT16,
            on_disk=True,
            hnsw_config=models.HnswConfigDiff(m=0),
            multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
        )
        vectors = {"tokens": tokens, "pooled": models.VectorParams(size=dim, distance=models.Distance.COSINE)}
        self.ask("create_collection", vectors_config=vectors, on_disk_payload=True)

    def upload(self, passages: Sequence[Passage], encoder: TokenEncoder) -> None:
        """Encode passages, and write their points."""
        vectors, lengths = encoder.encode_passages([str(passage) for passage in passages])
        pieces = np.split(vectors.astype(np.float32), np.cumsum(lengths)[:-1])
        points = [
            models.PointStruct(
                id=_point_id(passage.id),
                vector={"tokens": piece.tolist(), "pooled": piece.mean(axis=0).tolist()},
                payload=passage.to_dict(),
            )
            for passage, piece in zip(passages, pieces, strict=True)
        ]
        self.ask("upsert", points)


def _point_id(passage_id: str) -> str:
    """The UUID of a passage's point."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, passage_id.encode("utf-8", "surrogatepass").hex()))
