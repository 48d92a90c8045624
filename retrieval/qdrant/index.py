"""Late interaction in Qdrant, for indexes that are larger than one machine.

Each passage is a point with two vectors: `tokens`, its token vectors, compared by Qdrant's own MaxSim and kept on
disk in 16 bits; and `pooled`, their mean, under an HNSW graph. A search takes the nearest pooled vectors and scores
them by MaxSim, in one request. Passages are stored in the points, so that a cluster needs nothing else.

Without a URL the store of `qdrant-client` itself is used, inside the index folder. It has the same interface and
scores everything, for development and some thousand passages. Beware: it keeps its points as Python pickles, and
opening one runs what it holds; open only such folders as you or those you trust have made.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from typing_extensions import Self

from knowgap.errors import CheckpointError, DataError, IndexDamaged, UsageError, ValueOutOfBounds
from knowgap.retrieval.colbert.checkpoint import (
    EMBEDDED,
    checkpoint_digest,
    resolve_checkpoint,
    write_embedded_checkpoint,
)
from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.device import choose_device
from knowgap.retrieval.index.build import Progress, start_build
from knowgap.retrieval.index.encoding import STATE, EncodingState
from knowgap.retrieval.index.files import write_json
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import PassageStore, Where
from knowgap.retrieval.passage import Hit, Passage, check_k, rank_hits
from knowgap.retrieval.qdrant.collection import (
    POINTS_AT_ONCE,
    STORE,
    STORE_LOCK,
    Connection,
    Reporting,
    fill,
    import_qdrant,
    mean,
    point_id,
    upsert,
)

__all__ = ["QdrantIndex"]

_CHECKPOINT, _HISTORY = "checkpoint", "history.json"
_SCROLLED_AT_ONCE = 256
_TIES = 16  # asked for beyond k, so that equal scores at the cut are settled by id
_DECIMALS = 4


class QdrantIndex:
    """An index of token vectors in Qdrant. Made by `build` or `open`; usable from many threads."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        connection: Connection,
        *,
        checkpoint: str | Path | None,
        device: str | None,
    ) -> None:
        self.path, self.manifest = path, manifest
        self._connection, self.client = connection, connection.client
        self._collection: str = manifest.settings["collection"]
        self._local = connection.url is None
        self._checkpoint, self._device = checkpoint, device
        self._encoder: TokenEncoder | None = None
        # The store of qdrant-client is not made for several threads; a server is.
        self._lock, self._access = threading.Lock(), threading.RLock() if self._local else nullcontext()

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
        """Encode passages into a collection; or go on where an earlier call with the same arguments was interrupted.

        Args:
            passages: what to index; read once.
            path: a folder for the manifest and the embedded checkpoint, and for the store where there is no URL.
            url: a Qdrant server, `http://host:6333`; None uses the store of `qdrant-client` inside the folder.
            collection: its name on the server; one that is there and not from an interrupted build is replaced only
                where `overwrite` says so.
            api_key: of the server; the environment variable QDRANT_API_KEY where absent. It is never written down.
            checkpoint: see `ColBERTIndex.build`.
            dim: see `ColBERTIndex.build`.
            device: where to encode; None takes a CUDA GPU where there is one.
            shards: into how many parts a cluster divides the collection, from 1, and best a multiple of its nodes;
                None leaves it to the server, which takes one for each node. It cannot simply be changed later.
            replicas: how many copies of each part the cluster keeps, from 1; None leaves it to the server.
            overwrite: replace another index that stands at the path, and the collection.
            progress: called after each batch of passages.

        Raises:
            DataError: there are no passages, or two with the same id.
            ValueOutOfBounds: shards or replicas below 1.
            UsageError: shards or replicas without a URL, or another index stands at the path.
            CheckpointError: no such checkpoint.
            IndexMissing: no server answers at the URL.
            IndexFolderError: the collection is there already.
            MissingDependency: qdrant-client is not installed.
        """
        import_qdrant()
        layout = {"shard_number": shards, "replication_factor": replicas}
        if any(number is not None and number < 1 for number in layout.values()):
            raise ValueOutOfBounds(f"shards = {shards!r}, replicas = {replicas!r}: at least 1")
        if url is None and any(layout.values()):
            raise UsageError("shards and replicas belong to a Qdrant server; give its URL, or leave them out")
        device = choose_device(device)
        with start_build(path, overwrite=overwrite) as build:
            folder = build.folder
            store, digest = PassageStore.build(passages, folder)
            if not len(store):
                raise DataError("there are no passages to index")
            job = {"corpus": digest, "checkpoint": str(checkpoint), "dim": dim, "url": url, "collection": collection}
            state = EncodingState.resume(build, job)
            if checkpoint is None and not state.checkpoint:
                if progress:
                    progress(0, 1, "fitting the embedded checkpoint")
                write_embedded_checkpoint(store, folder / _CHECKPOINT, dim=dim)
                if progress:
                    progress(1, 1, "fitting the embedded checkpoint")
            where = folder / _CHECKPOINT if checkpoint is None else resolve_checkpoint(checkpoint)
            state.save(checkpoint=checkpoint_digest(where))
            encoder = TokenEncoder(where, device=device)
            name = EMBEDDED if checkpoint is None else str(checkpoint)
            settings = {"dim": encoder.dim, "url": url, "collection": collection}
            manifest = Manifest("qdrant", len(store), digest, settings, {"name": name, "digest": state.checkpoint})
            if not build.already_built(manifest):
                connection = Connection(folder, url, api_key)
                try:
                    fill(
                        connection.client,
                        collection,
                        store,
                        encoder,
                        state,
                        layout=layout,
                        overwrite=overwrite,
                        progress=progress,
                    )
                finally:
                    connection.close()
            for file in folder.glob("passages.*"):
                file.unlink()  # the points hold the passages
            build.finish(manifest, leave_out=[STATE, STORE_LOCK], changing=[STORE])
        return cls.open(path, api_key=api_key, checkpoint=checkpoint, device=device)

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
        """Open an index that `build` wrote. A store inside the folder is a pickle: see the module's warning.

        Args:
            path: its folder.
            url: where its server is now, if not where it was.
            api_key: of the server; the environment variable QDRANT_API_KEY where absent.
            checkpoint: where its checkpoint is now, if that is neither inside the index nor where it was.
            device: where to encode; None takes a CUDA GPU where there is one.

        Raises:
            IndexMissing: nothing is at that path, or no server answers.
            IndexForeign, IndexDamaged: see `Manifest.read`.
            UsageError: a URL for an index without a server.
            MissingDependency: qdrant-client is not installed.
        """
        import_qdrant()
        path = Path(path)
        manifest = Manifest.read(path, engine="qdrant")
        if url is not None and manifest.settings["url"] is None:
            raise UsageError(f"{path}: its store is inside the folder, not on a server; open it without a URL")
        connection = Connection(path, url or manifest.settings["url"], api_key)
        if not connection.client.collection_exists(manifest.settings["collection"]):
            connection.close()
            raise IndexDamaged(f"{path}: the collection {manifest.settings['collection']!r} is gone; build it again")
        return cls(path, manifest, connection, checkpoint=checkpoint, device=device)

    @property
    def encoder(self) -> TokenEncoder:
        """The checkpoint of the index, loaded and checked when it is first asked for.

        Raises:
            CheckpointError: it is absent, or not the one that encoded the passages.
        """
        with self._lock:
            if self._encoder is None:
                recorded = self.manifest.checkpoint
                inside = self.path / _CHECKPOINT if recorded["name"] == EMBEDDED else recorded["name"]
                folder = resolve_checkpoint(self._checkpoint or inside)
                if checkpoint_digest(folder) != recorded["digest"]:
                    raise CheckpointError(f"{folder}: not the checkpoint that encoded {self.path}; give that one")
                self._encoder = TokenEncoder(folder, device=self._device)
            return self._encoder

    @property
    def digest(self) -> str:
        """A digest of what the index was built from and of all changes since."""
        history = self.path / _HISTORY
        return json.loads(history.read_text(encoding="utf-8"))["digest"] if history.exists() else self.manifest.digest

    def __len__(self) -> int:
        with self._access:
            return self.client.count(self._collection, exact=True).count

    def __iter__(self) -> Iterator[Passage]:
        offset = None
        while True:
            with self._access:
                records, offset = self.client.scroll(self._collection, limit=_SCROLLED_AT_ONCE, offset=offset)
            yield from (Passage.from_dict(record.payload) for record in records)
            if offset is None:
                return

    def search(
        self,
        queries: Sequence[str],
        k: int,
        *,
        ids: Collection[str] | None = None,
        where: Where | None = None,
        pooled: int | None = 1000,
    ) -> list[list[Hit]]:
        """The `k` passages that match each query best.

        Args:
            queries: any strings; a blank one finds nothing.
            k: at most this many hits, from 1.
            ids: search only the passages with these ids.
            where: search only the passages for which this is true; every passage is fetched to find out.
            pooled: how many passages are chosen by their pooled vectors for scoring by MaxSim, and 10 for each hit at
                least; None scores all, which takes a server long. The store inside a folder always scores all.

        Returns:
            Hits scored by MaxSim.

        Raises:
            ValueOutOfBounds: k < 1.
            CheckpointError: the checkpoint of the index is absent or was changed.
            IndexMissing: the server does not answer.
        """
        check_k(k)
        from qdrant_client import models

        asked = [query for query in dict.fromkeys(queries) if query.strip()]
        if not asked:
            return [[] for _ in queries]
        if where is not None:
            ids = [passage.id for passage in self if (ids is None or passage.id in ids) and where(passage)]
        chosen = None
        if ids is not None:
            chosen = models.Filter(must=[models.HasIdCondition(has_id=[point_id(name) for name in ids])])
        found: dict[str, list[Hit]] = {}
        for query in asked:
            vectors = self.encoder.encode_query(query)
            request: dict[str, Any] = {"query": vectors.tolist(), "using": "tokens", "query_filter": chosen}
            if pooled is not None and not self._local and ids is None:
                limit = max(pooled, 10 * k)
                request["prefetch"] = models.Prefetch(query=mean(vectors), using="pooled", limit=limit)
            with self._access, Reporting(self._connection.url or self.path):
                points = self.client.query_points(
                    self._collection, limit=k + _TIES, with_payload=True, **request
                ).points
            scored = ((Passage.from_dict(point.payload), round(point.score, _DECIMALS)) for point in points)
            found[query] = rank_hits(scored, k)
        return [list(found.get(query, [])) for query in queries]

    def add(self, passages: Iterable[Passage], *, replace: bool = False) -> int:
        """Add passages; in every later search when this returns.

        Args:
            passages: what to add.
            replace: overwrite passages with the same ids.

        Returns:
            How many were added.

        Raises:
            DataError: an id that the index already has, or that comes twice.
        """
        new = list(passages)
        points = [point_id(passage.id) for passage in new]
        if len(set(points)) < len(points):
            raise DataError("an id is used twice; ids must be unique", field="id")
        with self._access:
            if new and not replace and (known := self.client.retrieve(self._collection, points, with_payload=True)):
                raise DataError(f"the id {known[0].payload['id']!r} is already in use; ids must be unique", field="id")
            for start in range(0, len(new), POINTS_AT_ONCE):
                upsert(self.client, self._collection, new[start : start + POINTS_AT_ONCE], self.encoder)
            if new:
                self._remember("add", [[passage.id, passage.title, passage.text] for passage in new])
        return len(new)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete passages by id; out of every later search when this returns.

        Args:
            ids: what to delete; ids that the index does not have are passed over.

        Returns:
            How many passages were deleted.
        """
        from qdrant_client import models

        names = sorted(set(ids))
        with self._access:
            known = self.client.retrieve(self._collection, [point_id(name) for name in names], with_payload=True)
            if known:
                points = models.PointIdsList(points=[record.id for record in known])
                self.client.delete(self._collection, points, wait=True)
                self._remember("delete", sorted(record.payload["id"] for record in known))
        return len(known)

    def _remember(self, act: str, what: list[Any]) -> None:
        digest = hashlib.sha256(json.dumps([self.digest, act, what]).encode()).hexdigest()
        write_json(self.path / _HISTORY, {"digest": digest})

    def close(self) -> None:
        """Close the connection, and with it the store inside the folder, which one process at a time may open."""
        self._connection.close()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
