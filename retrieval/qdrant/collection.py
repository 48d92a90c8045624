"""The collection behind a Qdrant index: connecting to it, and filling it."""

from __future__ import annotations

import ipaddress
import os
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from knowgap.errors import IndexFolderError, IndexMissing, MissingDependency, UsageError
from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.index.encoding import EncodingState
from knowgap.retrieval.index.passage_store import PassageStore
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.window import warn_of_cut
from knowgap.storage.progress import Progress, no_progress

_POINTS_PER_REQUEST = 64
_NAMESPACE = uuid.UUID("6b6e6f77-6761-5000-8000-000000000000")


def import_qdrant() -> None:
    """Raise `MissingDependency` if qdrant-client is not installed."""
    try:
        import qdrant_client  # noqa: F401  # whether it is there
    except ImportError as error:
        raise MissingDependency("qdrant-client is not installed; `pip install 'knowgap[qdrant]'`") from error


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


def connect(url: str, key: str | None) -> Any:
    """A client of a server.

    Raises:
        IndexMissing: no server answers.
    """
    from qdrant_client import QdrantClient

    with reporting(url), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Api key is used")  # `key_for` decides
        client = QdrantClient(url=url, api_key=key, check_compatibility=False)
        client.get_collections()
    return client


@contextmanager
def reporting(url: str) -> Iterator[None]:
    """Turn the errors of a connection into `IndexMissing`, which names the server."""
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    try:
        yield
    except (ResponseHandlingException, UnexpectedResponse, ConnectionError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise IndexMissing(f"{url}: Qdrant does not answer ({reason})") from error


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
