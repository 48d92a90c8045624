"""Opening indexes of other tools by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from knowgap.errors import IndexMissing, UnknownName, UsageError, check_address, is_address
from knowgap.retrieval.adapters.folders import FaissIndex, LuceneIndex, kind_of
from knowgap.retrieval.adapters.plaid import PlaidIndex
from knowgap.retrieval.adapters.qdrant_collection import QdrantCollection
from knowgap.retrieval.adapters.servers import ElasticsearchIndex, FlashRAGServer, SearchR1Server
from knowgap.retrieval.index.manifest import MANIFEST
from knowgap.retrieval.remote import RemoteRetriever

SERVERS: dict[str, Callable[[str], Any]] = {
    "elasticsearch": ElasticsearchIndex,
    "opensearch": ElasticsearchIndex,
    "flashrag": FlashRAGServer,
    "search-r1": SearchR1Server,
    "qdrant": QdrantCollection,
    "colbertv2": lambda url: RemoteRetriever(url, batch=False),
}
"""The retriever for each kind of server, which is named before the address: `elasticsearch+http://host:9200/index`."""

FOLDERS: dict[str, Callable[[Path], Any]] = {"faiss": FaissIndex, "lucene": LuceneIndex, "plaid": PlaidIndex}
"""The retriever for each kind of folder, which is named before the path: `faiss:FOLDER`."""


def open_adapter(name: str | Path) -> Any:
    """Open an index of another tool, recognized by the form of its name or by the files in its folder.

    The name is `KIND+http://…` with a kind of `SERVERS`, `KIND:FOLDER` with one of `FOLDERS`, or a folder of such a
    kind; None is returned for any other.

    Raises:
        IndexFolderError: there is no such folder, or it lacks a file that is needed.
        MissingDependency: a package is not installed.
        UsageError: an address does not have this form.

    >>> open_adapter("some-folder") is None
    True
    """
    scheme, found, address = str(name).partition("+")
    if found and scheme in SERVERS:
        check_address(address, f"{scheme}+ADDRESS:")
        return SERVERS[scheme](address)
    if found and is_address(address):
        raise UnknownName.among("kind of server", scheme, SERVERS)
    kind, found, folder = str(name).partition(":")
    if found and kind in SERVERS:
        raise UsageError(f"{name}: a server is named as {kind}+http://HOST:PORT")
    if found and kind in FOLDERS:
        if not folder:
            raise UsageError("name the folder, too, as in faiss:FOLDER")
        if not Path(folder).is_dir():
            raise IndexMissing(f"{folder}: there is no such folder")
        return FOLDERS[kind](Path(folder))
    folder = Path(name)
    own = kind_of(folder) if folder.is_dir() and not (folder / MANIFEST).exists() else ""
    return FOLDERS[own](folder) if own else None
