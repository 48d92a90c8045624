"""The files that an index was made of, for visitors who open a source at its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.responses import FileResponse, Response

from knowgap.errors import UsageError
from knowgap.programs.sources import AnswerSource
from knowgap.retrieval.documents.sources import sources_of
from knowgap.service.requests import Problem

_TYPES = {
    ".pdf": "application/pdf",
    ".htm": "text/html",
    ".html": "text/html",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".rst": "text/plain; charset=utf-8",
}
"""What a browser shows; other files are downloaded."""


class Files:
    """The files of an index.

    A file is shown if the index has recorded it and it still lies in the folder that was indexed. A page is shown
    without its scripts.

    Args:
        index: an index of a folder of documents.

    Raises:
        UsageError: the index does not know its files, or their folder is gone.
    """

    def __init__(self, index: Any) -> None:
        sources = sources_of(index)
        if sources is None:
            raise UsageError("the index was not made of a folder of documents here: it has no files to show")
        self._sources, self._folder = sources, Path(sources.settings()["corpus"])
        if not self._folder.is_dir():
            raise UsageError(f"{self._folder}: the folder that was indexed is gone: there are no files to show")

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
        root, path = self._folder.resolve(), (self._folder / name).resolve()
        if name not in self._sources.files() or not path.is_relative_to(root) or not path.is_file():
            raise Problem(404, f"there is no file {name!r} in the index")
        kind = _TYPES.get(path.suffix.lower())
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
        if kind == "text/html":
            headers["Content-Security-Policy"] = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        disposition = "inline" if kind else "attachment"
        return FileResponse(
            path,
            media_type=kind or "application/octet-stream",
            headers=headers,
            filename=path.name,
            content_disposition_type=disposition,
        )
