"""Search the index of a service: one query, in the protocol of `dspy.ColBERTv2`, or many at once.

    GET  /search?query=…&k=10                     one query
    POST /search {"query": "…", "k": 10}          the same
    POST /search {"queries": ["…", …], "k": 10}   many queries

One query is answered with `{"topk": [{"pid", "text", "long_text", "title", "passage", "score", "rank"}, …]}`, several
with `{"results": [[…], …]}`. `text` and `long_text` hold "title | passage", as on hosted servers of the protocol.
Passages of documents have `source`, too: their file and their position in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

from knowgap.retrieval.documents.reading import find_files
from knowgap.retrieval.documents.sources import Source, places_of, sources_of
from knowgap.retrieval.passage import Hit, Retriever
from knowgap.service.live_index import LiveIndex
from knowgap.service.requests import Gone, patiently

_THREADS = ThreadPoolExecutor(8, thread_name_prefix="knowgap-search")
_LISTED = 2000  # documents at most
_OF_FOLDER = {"left_out": dict[str, int](), "busy": "", "problem": ""}  # of the index of a served folder
_Query = Annotated[str, Field(max_length=32_768)]


class SearchRequest(BaseModel):
    """The fields of a request to /search: either a query or queries."""

    model_config = ConfigDict(extra="forbid")

    query: _Query | None = None
    queries: Annotated[list[_Query], Field(max_length=256)] | None = None
    k: Annotated[int, Field(ge=1, le=1000)] = 10

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.query is None) == (self.queries is None):
            raise ValueError("a request must have either query or queries, and not both")
        return self


def describe(retriever: Any) -> dict[str, Any]:
    """The engine and the digest of an index, and how far its documents are read."""
    manifest, read = getattr(retriever, "manifest", None), getattr(retriever, "being_read", None)
    return {
        "engine": getattr(manifest, "engine", type(retriever).__name__),
        "digest": getattr(retriever, "digest", None),
        **({"being_read": dict(zip(("searchable", "documents"), read, strict=True))} if read else {}),
    }


async def search(retriever: Retriever, asked: SearchRequest, gone: Gone, deadline: float) -> dict[str, Any]:
    """Search, and return the answer, JSON-ready. A search whose client disconnects while it waits never begins.

    Raises:
        Problem: the client has disconnected (499), or there is no answer within `deadline` seconds (504).
    """
    queries = asked.queries if asked.queries is not None else [asked.query or ""]
    searching = asyncio.get_running_loop().run_in_executor(_THREADS, find, retriever, queries, asked.k)
    results = [[_colbert_record(*each) for each in hits] for hits in await patiently(searching, gone, deadline)]
    return {"topk": results[0]} if asked.queries is None else {"results": results}


def find(retriever: Retriever, queries: Sequence[str], k: int) -> list[list[tuple[Hit, Source | None]]]:
    """The hits for each query, with the places that the index has recorded."""
    found = retriever.search(queries, k)
    places = places_of(retriever, {hit.passage.id for hits in found for hit in hits})
    return [[(hit, places.get(hit.passage.id)) for hit in hits] for hits in found]


def list_documents(index: Any) -> dict[str, Any]:
    """What an index knows of its documents, JSON-ready.

    `documents` has the name of each, its number of `passages`, why it was `left_out`, or that it is `being_read`, and a
    `note` on what of it was left out. `left_out` has the numbers of other files by reason. Of a served folder, `busy`
    says what its index is doing, and `problem` why its documents could not be indexed.
    """
    sources = sources_of(index)
    files, counts = (sources.files(), sources.counts()) if sources is not None else ({}, {})
    live = isinstance(index, LiveIndex)
    names = {*files, *(find_files(index.folder) if live else ())}
    documents = [
        {
            "name": name,
            "passages": counts.get(name, 0),
            "left_out": files[name].problem if name in files else "",
            "note": files[name].note if name in files else "",
            "being_read": name not in files,
        }
        for name in sorted(names)[:_LISTED]
    ]
    more = {name: getattr(index, name) if live else empty for name, empty in _OF_FOLDER.items()}
    return {"documents": documents, "number": len(names), **more}


def record_of(hit: Hit, place: Source | None) -> dict[str, Any]:
    """A hit with its place, as far as it is recorded, JSON-ready."""
    source = {} if place is None else {"source": place.to_dict()}
    return {"rank": hit.rank, "score": hit.score, **hit.passage.to_dict(), **source}


def _colbert_record(hit: Hit, place: Source | None) -> dict[str, Any]:
    """A hit in the protocol of `dspy.ColBERTv2`."""
    record = record_of(hit, place)
    text = f"{record['title']} | {record['text']}" if record["title"] else record["text"]
    return {**record, "pid": record["id"], "passage": record["text"], "text": text, "long_text": text}
