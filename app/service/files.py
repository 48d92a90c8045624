"""The files of an index: visitors may see their list, and open a source at its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.responses import FileResponse, Response

from knowgap.errors import UsageError
from knowgap.programs.sources import AnswerSource
from knowgap.retrieval.documents.reading import open_folder
from knowgap.retrieval.documents.sources import sources_of
from knowgap.service.live_index import LiveIndex
from knowgap.service.requests import Problem

_LISTED = 2000  # documents at most
_SHOWN = {
    **{".pdf": "application/pdf", ".htm": "text/html", ".html": "text/html"},
    **dict.fromkeys((".txt", ".md"), "text/plain; charset=utf-8"),
}
"""The media types of files that a browser displays; other files are downloaded."""


class Files:
    """The files of an index.

    A file is shown if the index has recorded it and it is still where it was indexed. A web page is shown without its
    scripts.

    Args:
        index: an index of a folder of documents, or of one document.

    Raises:
        UsageError: the index does not know its files, or their folder is gone.
    """

    def __init__(self, index: Any) -> None:
        self._index = index
        if isinstance(index, LiveIndex):
            self._folder = index.folder
            return
        sources = sources_of(index)
        if sources is None:
            raise UsageError("the index was not built from a folder of documents here: there are no files to show")
        self._folder = Path(sources.settings()["corpus"])
        if not self._folder.exists():
            raise UsageError(f"{self._folder}: what was indexed no longer exists; there are no files to show")

    @staticmethod
    def link(source: AnswerSource) -> str:
        """The address of a source's file at its page, relative to that of the server; empty if it has none."""
        if source.place is None or source.place.unit == "line":
            return ""
        page = f"#page={source.place.first}" if source.place.unit == "page" else ""
        return f"files/{quote(source.place.file)}{page}"

    def respond(self, name: str) -> Response:
        """Send a file.

        Raises:
            Problem: there is no such file (404).
        """
        sources, root = sources_of(self._index), self._folder.resolve()
        known = sources is not None and name in sources.files()
        path = (root / name if known and root.is_dir() else root).resolve()
        if not (known and path.is_relative_to(root) and path.is_file()):
            raise Problem(404, f"there is no file {name!r} in the index")
        kind = _SHOWN.get(path.suffix.lower())
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
        if kind == "text/html":
            headers["Content-Security-Policy"] = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        return FileResponse(
            path,
            media_type=kind or "application/octet-stream",
            headers=headers,
            filename=path.name,
            content_disposition_type="inline" if kind else "attachment",
        )


def list_documents(index: Any) -> dict[str, Any]:
    """What an index knows of its documents, JSON-ready.

    `documents` has the name of each, its number of `passages`, and why it was `left_out`, or that it is `being_read`;
    `left_out` has the numbers of other files by reason, and `busy` says what a served folder's index is doing.
    """
    sources = sources_of(index)
    files, counts = (sources.files(), sources.counts()) if sources is not None else ({}, {})
    live = isinstance(index, LiveIndex)
    names = {*files, *(open_folder(index.folder).files if live else ())}
    documents = [
        {
            "name": name,
            "passages": counts.get(name, 0),
            "left_out": files[name].problem if name in files else "",
            "being_read": name not in files,
        }
        for name in sorted(names)[:_LISTED]
    ]
    more = {"left_out": index.left_out, "busy": index.busy} if live else {"left_out": {}, "busy": ""}
    return {"documents": documents, "number": len(names), **more}
