"""The collection behind a Qdrant index: connecting to it, and filling it."""

from __future__ import annotations

import io
import ipaddress
import os
import pickle
import sqlite3
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from knowgap.errors import IndexDamaged, IndexFolderError, IndexMissing, MissingDependency, UsageError
from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.index.encoding import EncodingState
from knowgap.retrieval.index.passage_store import PassageStore
from knowgap.retrieval.index.window import warn_of_cut
from knowgap.retrieval.passage import Passage
from knowgap.storage.progress import Progress, no_progress

__all__ = [
    "STORE",
    "STORE_LOCK",
    "Connection",
    "fill",
    "import_qdrant",
    "key_for",
    "point_id",
    "pool",
    "reporting",
    "upsert",
]

STORE, STORE_LOCK = "qdrant", ".store.lock"
_POINTS_PER_REQUEST = 64
_NAMESPACE = uuid.UUID("6b6e6f77-6761-5000-8000-000000000000")


def import_qdrant() -> None:
    """Raise `MissingDependency` if qdrant-client is not installed."""
    try:
        import qdrant_client  # noqa: F401  # whether it is there
    except ImportError as error:
        raise MissingDependency("qdrant-client is not installed; `pip install 'knowgap[qdrant]'`") from error


class _PointUnpickler(pickle.Unpickler):
    """Reads a pickled point; a pickle that names anything but the class of points is refused."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) != ("qdrant_client.http.models.models", "PointStruct"):
            raise pickle.UnpicklingError(f"it would run {module_name}.{global_name}")
        return super().find_class(module_name, global_name)


def _check_pickles(store: Path) -> None:
    """Raise for a store whose pickles hold anything but points: `QdrantClient` would run it."""
    for file in sorted(store.rglob("*.sqlite")):
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
            for (value,) in database.execute("SELECT point FROM points"):
                _PointUnpickler(io.BytesIO(value)).load()


def key_for(url: str, api_key: str | None, *, named: bool) -> str | None:
    """The key to send to a server: the argument, or the environment variable QDRANT_API_KEY.

    Args:
        url: the server.
        api_key: a key for this server.
        named: whether the user named this server, in this call or as QDRANT_URL. No key goes to a server that only
            the folder of an index names.

    Raises:
        UsageError: the key is for a server that the user has not named, or would go over plain HTTP to another machine;
            or the URL holds a user name or password, which would be written into the folder.
    """
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise UsageError(f"{url}: leave out user name and password; the server's key is read from QDRANT_API_KEY")
    known = urlsplit(os.environ.get("QDRANT_URL", ""))
    named = named or (known.scheme, known.hostname, known.port) == (parts.scheme, parts.hostname, parts.port)
    if not named:
        if api_key is not None:
            raise UsageError(f"api_key: name the server that it is for, url={url!r} or QDRANT_URL")
        return None
    key = api_key or os.environ.get("QDRANT_API_KEY")
    if key and parts.scheme != "https" and not _is_loopback(parts.hostname or ""):
        raise UsageError(f"{url}: the key would go over plain HTTP; use https, or unset QDRANT_API_KEY")
    return key


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Connection:
    """A client of a server, or of the store in a folder, which one process at a time may open."""

    def __init__(self, folder: Path, url: str | None, key: str | None) -> None:
        from filelock import FileLock, Timeout
        from qdrant_client import QdrantClient

        self.url, self._lock = url, FileLock(folder / STORE_LOCK, timeout=0)
        if url is not None:
            with reporting(url), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Api key is used")  # `key_for` decides
                self.client: Any = QdrantClient(url=url, api_key=key, check_compatibility=False)
                self.client.get_collections()
            return
        try:
            self._lock.acquire()
        except Timeout:
            message = f"{folder}: the store is open elsewhere; close it there, serve it, or use a Qdrant server"
            raise IndexFolderError(message) from None
        try:
            _check_pickles(folder / STORE)
            with warnings.catch_warnings():
                # The module `index` tells for how many passages the store is meant.
                warnings.filterwarnings("ignore", message="Local mode is not recommended")
                self.client = QdrantClient(path=str(folder / STORE))
        except Exception as error:  # a damaged SQLite file or pickle can raise anything
            self._lock.release()
            raise IndexDamaged(f"{folder}: the store cannot be read ({error}); build the index again") from error

    def close(self) -> None:
        """Close the client, and let other processes open the store."""
        self.client.close()
        self._lock.release()


@contextmanager
def reporting(place: object) -> Iterator[None]:
    """Turn the errors of a connection into `IndexMissing`, which names the place."""
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    try:
        yield
    except (ResponseHandlingException, UnexpectedResponse, ConnectionError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise IndexMissing(f"{place}: Qdrant does not answer ({reason})") from error


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
    """Make a collection, unless this build has made it already, and encode the missing passages into it.

    The state of the build is changed and saved after each request. `layout` says how a cluster divides and copies the
    collection; `overwrite` replaces a collection of that name that this build has not made.

    Raises:
        IndexFolderError: a collection of that name is there already.
    """
    if not state.passages:
        if client.collection_exists(collection):
            if not overwrite and not state.collection:
                raise IndexFolderError(
                    f"the collection {collection!r} is there already; choose another, or overwrite it"
                )
            client.delete_collection(collection)
        state.save(collection=True)
        _create(client, collection, encoder.dim, layout)
    report = progress or no_progress
    for start in range(state.passages, len(store), _POINTS_PER_REQUEST):
        report(start, len(store), "encoding passages")
        end = min(start + _POINTS_PER_REQUEST, len(store))
        cut = upsert(client, collection, [store[i] for i in range(start, end)], encoder)
        state.save(passages=end, cut=state.cut + cut)
    report(len(store), len(store), "encoding passages")
    warn_of_cut(state.cut, len(store), encoder.window)


def _create(client: Any, collection: str, dim: int, layout: Mapping[str, int | None]) -> None:
    from qdrant_client import models

    tokens = models.VectorParams(
        size=dim,
        distance=models.Distance.DOT,  # a query's vectors carry weights, which the cosine would undo
        datatype=models.Datatype.FLOAT16,
        on_disk=True,
        hnsw_config=models.HnswConfigDiff(m=0),
        multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
    )
    pooled = models.VectorParams(size=dim, distance=models.Distance.COSINE)
    vectors = {"tokens": tokens, "pooled": pooled}
    client.create_collection(collection, vectors_config=vectors, on_disk_payload=True, **layout)


def upsert(client: Any, collection: str, passages: Sequence[Passage], encoder: TokenEncoder) -> int:
    """Encode passages and put them into a collection, over those with the same ids.

    Returns:
        How many of them are longer than the encoder's window.
    """
    from qdrant_client import models

    cut = 0
    for start in range(0, len(passages), _POINTS_PER_REQUEST):
        batch = passages[start : start + _POINTS_PER_REQUEST]
        texts = [str(passage) for passage in batch]
        vectors, lengths = encoder.encode_passages(texts)
        cut += encoder.window.cut(texts)
        pieces = np.split(vectors.astype(np.float32), np.cumsum(lengths)[:-1])
        points = [
            models.PointStruct(
                id=point_id(passage.id),
                vector={"tokens": piece.tolist(), "pooled": pool(piece)},
                payload=passage.to_dict(),
            )
            for passage, piece in zip(batch, pieces, strict=True)
        ]
        client.upsert(collection, points, wait=True)
    return cut


def pool(vectors: npt.NDArray[np.float32]) -> list[float]:
    """The mean of token vectors, [tokens, dim] to [dim]."""
    return vectors.mean(axis=0).tolist()


def point_id(passage_id: str) -> str:
    """The UUID of a passage's point."""
    return str(uuid.uuid5(_NAMESPACE, passage_id.encode("utf-8", "surrogatepass").hex()))
