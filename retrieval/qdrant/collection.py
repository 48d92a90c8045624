"""The collection behind a Qdrant index: connecting to it, and filling it."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.errors import IndexDamaged, IndexFolderError, IndexMissing, MissingDependency
from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.index.build import Progress
from knowgap.retrieval.index.encoding import EncodingState
from knowgap.retrieval.index.passage_store import PassageStore
from knowgap.retrieval.passage import Passage

__all__ = [
    "POINTS_AT_ONCE",
    "STORE",
    "STORE_LOCK",
    "Connection",
    "Reporting",
    "fill",
    "import_qdrant",
    "mean",
    "point_id",
    "upsert",
]

STORE, STORE_LOCK = "qdrant", ".store.lock"
POINTS_AT_ONCE = 64
_NAMESPACE = uuid.UUID("6b6e6f77-6761-5000-8000-000000000000")


def import_qdrant() -> None:
    """Raise `MissingDependency` where qdrant-client is not installed."""
    try:
        import qdrant_client  # noqa: F401  # whether it is there
    except ImportError as error:
        raise MissingDependency("qdrant-client is not installed; `pip install 'knowgap[qdrant]'`") from error


class Connection:
    """A client, and for a store inside a folder the lock that keeps it to one process."""

    def __init__(self, folder: Path, url: str | None, api_key: str | None) -> None:
        from filelock import FileLock, Timeout
        from qdrant_client import QdrantClient

        self.url, self._lock = url, None
        if url is not None:
            with Reporting(url):
                self.client: Any = QdrantClient(
                    url=url, api_key=api_key or os.environ.get("QDRANT_API_KEY"), check_compatibility=False
                )
                self.client.get_collections()
            return
        self._lock = FileLock(folder / STORE_LOCK, timeout=0)
        try:
            self._lock.acquire()
        except Timeout:
            message = f"{folder}: the store is open elsewhere; close it there, serve it, or use a Qdrant server"
            raise IndexFolderError(message) from None
        try:
            with warnings.catch_warnings():
                # The docstring of the module says how far the local store goes.
                warnings.filterwarnings("ignore", message="Local mode is not recommended")
                self.client = QdrantClient(path=str(folder / STORE))
        except Exception as error:  # a damaged SQLite file or pickle raises what it likes
            self._lock.release()
            raise IndexDamaged(f"{folder}: the store cannot be read ({error}); build the index again") from error

    def close(self) -> None:
        """Close the client, and let other processes have the store."""
        self.client.close()
        if self._lock is not None:
            self._lock.release()


class Reporting:
    """Turns the errors of a connection into `IndexMissing`."""

    def __init__(self, place: object) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        if isinstance(error, (ResponseHandlingException, UnexpectedResponse, ConnectionError)):
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise IndexMissing(f"{self._place}: Qdrant does not answer ({reason})") from error


def fill(
    client: Any,
    collection: str,
    store: PassageStore,
    encoder: TokenEncoder,
    state: EncodingState,
    *,
    layout: Mapping[str, int | None],
    overwrite: bool,
    progress: Progress | None,
) -> None:
    """Make a collection, in the layout given to a cluster, and encode passages into it, from where the state says.

    Raises:
        IndexFolderError: the collection is there already, and was not to be overwritten.
    """
    from qdrant_client import models

    if not state.passages:
        if client.collection_exists(collection):
            if not overwrite and not state.collection:
                raise IndexFolderError(
                    f"the collection {collection!r} is there already; choose another, or overwrite it"
                )
            client.delete_collection(collection)
        state.save(collection=True)  # from here on the collection is this build's own
        interaction = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        client.create_collection(
            collection,
            vectors_config={
                "tokens": models.VectorParams(
                    size=encoder.dim,
                    distance=models.Distance.DOT,  # a query's vectors carry weights, which the cosine would undo
                    datatype=models.Datatype.FLOAT16,
                    on_disk=True,
                    hnsw_config=models.HnswConfigDiff(m=0),
                    multivector_config=interaction,
                ),
                "pooled": models.VectorParams(size=encoder.dim, distance=models.Distance.COSINE),
            },
            on_disk_payload=True,
            **layout,
        )
    for start in range(state.passages, len(store), POINTS_AT_ONCE):
        if progress:
            progress(start, len(store), "encoding passages")
        end = min(start + POINTS_AT_ONCE, len(store))
        upsert(client, collection, [store[i] for i in range(start, end)], encoder)
        state.save(passages=end)
    if progress:
        progress(len(store), len(store), "encoding passages")


def upsert(client: Any, collection: str, passages: Sequence[Passage], encoder: TokenEncoder) -> None:
    """Encode passages and put them into a collection, over those with the same ids."""
    from qdrant_client import models

    vectors, lengths = encoder.encode_passages([str(passage) for passage in passages])
    pieces = np.split(vectors.astype(np.float32), np.cumsum(lengths)[:-1])
    points = [
        models.PointStruct(
            id=point_id(passage.id),
            vector={"tokens": piece.tolist(), "pooled": mean(piece)},
            payload=passage.to_dict(),
        )
        for passage, piece in zip(passages, pieces, strict=True)
    ]
    client.upsert(collection, points, wait=True)


def mean(vectors: npt.NDArray[np.float32]) -> list[float]:
    """The pooled vector of token vectors [tokens, dim]."""
    return vectors.mean(axis=0).tolist()


def point_id(identifier: str) -> str:
    """The UUID under which Qdrant keeps the passage with an id."""
    return str(uuid.uuid5(_NAMESPACE, identifier.encode("utf-8", "surrogatepass").hex()))
