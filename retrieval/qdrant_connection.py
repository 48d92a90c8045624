"""The connection to a Qdrant server: its address, its key and its errors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from knowgap.errors import IndexMissing, MissingDependency, UsageError

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def address(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port of a server."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def key_for(url: str, api_key: str | None) -> str | None:
    """The key to send to a server: the argument, or the environment variable QDRANT_API_KEY.

    Raises:
        UsageError: the key would go over plain HTTP, or the address holds a user name or password.
    """
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise UsageError(f"{url}: leave out user name and password; the server's key is read from QDRANT_API_KEY")
    key = api_key or os.environ.get("QDRANT_API_KEY")
    if key and parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise UsageError(f"{url}: the key would go over plain HTTP; use https, or unset QDRANT_API_KEY")
    return key


def client_class() -> Any:
    """`QdrantClient`.

    Raises:
        MissingDependency: qdrant-client is not installed.
    """
    try:
        from qdrant_client import QdrantClient
    except ImportError as error:
        raise MissingDependency("qdrant-client is not installed; `pip install 'knowgap[qdrant]'`") from error
    return QdrantClient


def connect(url: str, key: str | None) -> Any:
    """Connect to a server, and check that it answers.

    Raises:
        IndexMissing: no server answers.
        MissingDependency: qdrant-client is not installed.
    """
    client = client_class()
    with reporting(url), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Api key is used")  # `key_for` has checked it
        connected = client(url=url, api_key=key, check_compatibility=False)
        connected.get_collections()
    return connected


@contextmanager
def reporting(url: str) -> Iterator[None]:
    """Convert connection errors into `IndexMissing`, which names the server."""
    from qdrant_client.http.exceptions import ApiException

    try:
        yield
    except (ApiException, ConnectionError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise IndexMissing(f"{url}: Qdrant does not answer ({reason})") from error
