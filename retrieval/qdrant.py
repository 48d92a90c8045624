"""Late interaction in Qdrant, for indexes that are too large for one machine.

Each passage is a point with two vectors: `tokens`, its token vectors, which Qdrant compares by MaxSim and keeps on
disk in 16 bits; and `pooled`, their mean, in an HNSW graph. A search finds the nearest pooled vectors and scores
their passages by MaxSim, in one request. The points also store the passages, so a cluster needs nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import Any

import numpy as np

from knowgap.errors import DataError, IndexDamaged, IndexFolderError, UsageError, ValueOutOfBounds, shorten
from knowgap.retrieval.colbert.checkpoint import checkpoint_window, load_recorded_encoder, prepare_checkpoint
from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.device import choose_device, precision_on
from knowgap.retrieval.documents.sources import batches
from knowgap.retrieval.index.build import start_build
from knowgap.retrieval.index.encoding import STATE, EncodingState
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import PassageStore, Where
from knowgap.retrieval.index.snapshot import Block
from knowgap.retrieval.passage import SCORE_DECIMALS, Hit, NeverCopied, Passage, check_k, not_split, rank_hits
from knowgap.retrieval.qdrant_connection import address, client_class, connect, key_for, reporting
from knowgap.retrieval.window import warn_of_cut
from knowgap.storage.progress import Progress, no_progress

_PASSAGES_PER_REQUEST = 64
_NAMESPACE = uuid.UUID("6b6e6f77-6761-5000-8000-000000000000")
_TIES = 16  # hits asked for beyond k, so that equal scores at the cut are ordered by id


class QdrantIndex(NeverCopied):
    """An index of token vectors in Qdrant. Made by `build` or `open`; usable from many threads."""

    window_of = staticmethod(checkpoint_window)

    def __init__(
        self, path: Path, manifest: Manifest, url: str, client: Any, checkpoint: str | Path | None, device: str | None
    ) -> None:
        self.path, self.manifest, self.url, self.client = path, manifest, url, client
        self._collection: str = manifest.settings["collection"]
        self._checkpoint, self._device = checkpoint, device
        self._encoder: TokenEncoder | None = None
        self._encoder_lock = threading.Lock()

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        *,
        url: str | None = None,
        collection: str = "knowgap",
        api_key: str | None = None,
        checkpoint: str | Path | None = None,
        dim: int | None = None,
        device: str | None = None,
        shards: int | None = None,
        replicas: int | None = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> QdrantIndex:
        """Encode passages into a collection, or continue an interrupted build with the same arguments.

        Args:
            passages: what to index; read once.
            path: a folder for the manifest and the embedded checkpoint.
            url: a Qdrant server, `https://host:6333`.
            collection: its name on the server. An existing collection is replaced only with `overwrite`, unless it is
                from an interrupted build.
            api_key: the key of the server; None reads the environment variable QDRANT_API_KEY. It is never stored, and
                never sent over plain HTTP to another machine.
            checkpoint: see `ColBERTIndex.build`.
            dim: see `ColBERTIndex.build`.
            device: where to encode; None takes a CUDA GPU if there is one.
            shards: how many parts a cluster divides the collection into, ideally a multiple of its nodes; None takes
                one per node. It cannot easily be changed later.
            replicas: how many copies of each part the cluster keeps; None leaves it to the server.
            overwrite: replace another index at the path, and the collection.
            progress: called after each batch of passages.

        Raises:
            DataError: there are no passages, or two with the same id.
            ValueOutOfBounds: shards or replicas below 1.
            UsageError: there is no URL, another index is at the path, or a key would go over plain HTTP.
            CheckpointError: no such checkpoint.
            IndexMissing: no server answers at the URL.
            IndexFolderError: the collection exists already.
            MissingDependency: qdrant-client is not installed.
        """
        client_class()  # raises MissingDependency before anything is read
        layout = {"shard_number": shards, "replication_factor": replicas}
        if any(number is not None and number < 1 for number in layout.values()):
            raise ValueOutOfBounds(f"shards = {shards!r}, replicas = {replicas!r}: must be at least 1")
        if url is None:
            raise UsageError("a Qdrant index is kept on a server: give its URL (--engine-option url=https://HOST:6333)")
        device, key, progress = choose_device(device), key_for(url, api_key), progress or no_progress

        def check(folder: Path) -> None:
            with closing(connect(url, key)) as client:
                _check_collection(folder, client, collection)

        with start_build(path, overwrite=overwrite, check=check) as build:
            store = build.store(passages)
            job = {"checkpoint": str(checkpoint), "dim": dim, "url": url, "collection": collection}
            state = EncodingState.resume(build, job | layout)
            folder, recorded = prepare_checkpoint(checkpoint, dim, store, state, progress)
            encoder = TokenEncoder(folder, device=device)
            settings = {"dim": encoder.dim, "url": url, "collection": collection}
            recorded |= {"precision": precision_on(encoder.device)}
            manifest = build.manifest("qdrant", store, settings, recorded)
            if not build.already_built(manifest):
                with closing(connect(url, key)) as client, reporting(url):
                    if not state.passages:
                        _create(client, collection, state, encoder.dim, layout, overwrite=overwrite)
                    _fill(client, collection, store, encoder, state, progress)
            shutil.rmtree(build.segment)  # the points hold the passages
            build.finish(manifest, leave_out=[STATE])
        return cls.open(path, url=url, api_key=api_key, checkpoint=checkpoint, device=device)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        url: str | None = None,
        api_key: str | None = None,
        checkpoint: str | Path | None = None,
        device: str | None = None,
    ) -> QdrantIndex:
        """Open an index that `build` wrote.

        Args:
            path: its folder.
            url: the server; None takes the server of the build, which the environment variable QDRANT_URL must allow.
            api_key: the key of the server; None reads the environment variable QDRANT_API_KEY.
            checkpoint: the folder of its checkpoint; None takes the one in the index, or that of the build.
            device: where to encode; None takes a CUDA GPU if there is one.

        Raises:
            IndexMissing: nothing is at that path, or no server answers.
            IndexForeign, IndexDamaged: see `Manifest.read`.
            UsageError: QDRANT_URL does not allow the server of the build, or a key would go over plain HTTP.
            MissingDependency: qdrant-client is not installed.
        """
        path = Path(path)
        manifest = Manifest.read(path, engine="qdrant")
        server = url or manifest.settings["url"]
        if url is None and address(server) != address(os.environ.get("QDRANT_URL", "")):
            raise UsageError(
                f"{path} names the Qdrant server {shorten(server, 100)}: set QDRANT_URL={shorten(server, 100)} in "
                "the environment to allow it (in Python, the argument url)"
            )
        client = connect(server, key_for(server, api_key))
        try:
            _check_collection(path, client, manifest.settings["collection"])
        except IndexDamaged:
            client.close()
            raise
        return cls(path, manifest, server, client, checkpoint, device)

    @property
    def encoder(self) -> TokenEncoder:
        """The encoder of the index, loaded and checked when it is first used.

        Raises:
            CheckpointError: its checkpoint is absent, or not the one that encoded the passages.
        """
        with self._encoder_lock:
            if self._encoder is None:
                self._encoder = load_recorded_encoder(self.path, self.manifest, self._checkpoint, self._device)
            return self._encoder

    @property
    def digest(self) -> str:
        """A digest of the settings and passages of the build and of all changes since."""
        return Manifest.parse(self.path).digest

    def _ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the client on the collection."""
        with reporting(self.url):
            return getattr(self.client, method)(self._collection, *arguments, **options)

    def __len__(self) -> int:
        return self._ask("count", exact=True).count

    def __iter__(self) -> Iterator[Passage]:
        offset = None
        while True:
            records, offset = self._ask("scroll", limit=_PASSAGES_PER_REQUEST, offset=offset)
            yield from (Passage.from_dict(record.payload) for record in records)
            if offset is None:
                return

    def missing_ids(self, ids: Iterable[str]) -> list[str]:
        """The ids that belong neither to a passage nor to a document that was split into passages."""
        points = {_point_id(name): name for name in ids}
        found = self._ask("retrieve", list(points), with_payload=False)
        known = {str(record.id) for record in found}
        return not_split([name for point, name in points.items() if point not in known], (each.id for each in self))

    def search(
        self,
        queries: Sequence[str],
        k: int,
        *,
        ids: Collection[str] | None = None,
        where: Where | None = None,
        pooled: int | None = 1000,
    ) -> list[list[Hit]]:
        """The `k` passages that match each query best, by MaxSim.

        Args:
            queries: any strings; a blank one finds nothing.
            k: at most this many hits, from 1.
            ids: search only the passages with these ids.
            where: search only the passages for which this is true; every passage is fetched to find out.
            pooled: how many passages are chosen by their pooled vectors for scoring by MaxSim, at least 10 per hit.
                None scores all passages, which is slow; `ids` and `where` score all that they select.

        Raises:
            ValueOutOfBounds: k < 1.
            CheckpointError: the checkpoint of the index is absent or was changed.
            IndexMissing: the server does not answer.
        """
        check_k(k)
        from qdrant_client import models

        hits: dict[str, list[Hit]] = {query: [] for query in queries}
        if where is not None and any(query.strip() for query in hits):
            ids = [passage.id for passage in self if (ids is None or passage.id in ids) and where(passage)]
        chosen = None
        if ids is not None:
            chosen = models.Filter(must=[models.HasIdCondition(has_id=[_point_id(name) for name in ids])])
        for query in filter(str.strip, hits):
            vectors = self.encoder.encode_query(query)
            request: dict[str, Any] = {"query": vectors.tolist(), "using": "tokens", "query_filter": chosen}
            if pooled is not None and ids is None:
                limit = max(pooled, 10 * k)
                request["prefetch"] = models.Prefetch(query=vectors.mean(axis=0).tolist(), using="pooled", limit=limit)
            answer = self._ask("query_points", limit=k + _TIES, with_payload=True, **request)
            scored = ((Passage.from_dict(point.payload), round(point.score, SCORE_DECIMALS)) for point in answer.points)
            hits[query] = rank_hits(scored, k)
        return [list(hits[query]) for query in queries]

    def add(self, passages: Iterable[Passage], *, replace: bool = False) -> int:
        """Add passages, and return how many; later searches find them.

        Raises:
            DataError: an id is used twice, or the index already has it and `replace` is False.
            IndexMissing: the server does not answer.
        """
        new = list(passages)
        points = [_point_id(passage.id) for passage in new]
        if len(set(points)) < len(points):
            raise DataError("an id is used twice; ids must be unique", field="id")
        if new and not replace and (known := self._ask("retrieve", points, with_payload=True)):
            raise DataError(f"the id {known[0].payload['id']!r} is already in use; ids must be unique", field="id")
        if new:
            blocks = map(self.encoder.encode_passages, map(_texts, batches(new, _PASSAGES_PER_REQUEST)))
            with reporting(self.url):
                _upload(self.client, self._collection, new, blocks)
            warn_of_cut(self.encoder.window.cut(_texts(new)), len(new), self.encoder.window)
            self._record_change("add", [[passage.id, passage.title, passage.text] for passage in new])
        return len(new)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete passages by id, and return how many the index had; later searches do not find them.

        Raises:
            IndexMissing: the server does not answer.
        """
        from qdrant_client import models

        points = [_point_id(name) for name in sorted(set(ids))]
        known = self._ask("retrieve", points, with_payload=True)
        if known:
            selector = models.PointIdsList(points=[record.id for record in known])
            self._ask("delete", selector, wait=True)
            self._record_change("delete", sorted(record.payload["id"] for record in known))
        return len(known)

    def _record_change(self, change: str, content: list[Any]) -> None:
        """Update the number of passages and the digest of all changes in the manifest."""
        old = Manifest.parse(self.path)
        digest = hashlib.sha256(json.dumps([old.corpus_digest, change, content]).encode()).hexdigest()
        [segment] = old.segments
        segment = replace(segment, passages=len(self), corpus_digest=digest)
        self.manifest = replace(old, segments=(segment,), changes=old.changes + 1)
        self.manifest.write(self.path)

    def close(self) -> None:
        """Close the connection."""
        self.client.close()


def _check_collection(folder: Path, client: Any, collection: str) -> None:
    if not client.collection_exists(collection):
        raise IndexDamaged(f"{folder}: the collection {collection!r} no longer exists; build the index again")


def _create(
    client: Any, collection: str, state: EncodingState, dim: int, layout: Mapping[str, int | None], *, overwrite: bool
) -> None:
    """Create a collection, and first delete an old one if it may be overwritten or is from the same build."""
    from qdrant_client import models

    if client.collection_exists(collection):
        if not overwrite and not state.collection:
            raise IndexFolderError(
                f"the collection {collection!r} already exists; choose another, or overwrite it (--overwrite)"
            )
        client.delete_collection(collection)
    state.save(collection=True)
    tokens = models.VectorParams(
        size=dim,
        distance=models.Distance.DOT,  # a query's vectors carry weights, which the cosine would undo
        datatype=models.Datatype.FLOAT16,
        on_disk=True,
        hnsw_config=models.HnswConfigDiff(m=0),
        multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
    )
    vectors = {"tokens": tokens, "pooled": models.VectorParams(size=dim, distance=models.Distance.COSINE)}
    client.create_collection(collection, vectors_config=vectors, on_disk_payload=True, **layout)


def _fill(
    client: Any,
    collection: str,
    store: PassageStore,
    encoder: TokenEncoder,
    state: EncodingState,
    report: Progress,
) -> None:
    """Encode the missing passages into a collection; the state of the build is saved after each request."""
    report(state.passages, len(store), "encoding passages")
    missing = (store[i] for i in range(state.passages, len(store)))
    parts, again = tee(batches(missing, _PASSAGES_PER_REQUEST))
    for batch, block in zip(parts, map(encoder.encode_passages, map(_texts, again)), strict=True):
        _upload(client, collection, batch, [block])
        state.save(passages=state.passages + len(batch), cut=state.cut + encoder.window.cut(_texts(batch)))
        report(state.passages, len(store), "encoding passages")
    warn_of_cut(state.cut, len(store), encoder.window)


def _upload(client: Any, collection: str, passages: Sequence[Passage], blocks: Iterable[Block]) -> None:
    """Upload passages to a collection; each block has the vectors of one batch."""
    from qdrant_client import models

    def points() -> Iterator[models.PointStruct]:
        for batch, (vectors, lengths) in zip(batches(passages, _PASSAGES_PER_REQUEST), blocks, strict=True):
            pieces = np.split(vectors.astype(np.float32), np.cumsum(lengths)[:-1])
            for passage, piece in zip(batch, pieces, strict=True):
                vector = {"tokens": piece.tolist(), "pooled": piece.mean(axis=0).tolist()}
                yield models.PointStruct(id=_point_id(passage.id), vector=vector, payload=passage.to_dict())

    client.upload_points(collection, points(), batch_size=_PASSAGES_PER_REQUEST, wait=True)


def _texts(passages: Iterable[Passage]) -> list[str]:
    return [str(passage) for passage in passages]


def _point_id(passage_id: str) -> str:
    """The UUID of a passage's point."""
    return str(uuid.uuid5(_NAMESPACE, passage_id.encode("utf-8", "surrogatepass").hex()))
