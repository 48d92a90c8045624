"""Passages that stand in a file, a line each, as other toolkits keep them beside their indexes."""

from __future__ import annotations

import contextlib
import json
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from knowgap.errors import IndexForeign, shorten
from knowgap.retrieval.passage import Passage

IDS = ("id", "_id", "docid", "pid")
_TEXTS = ("text", "contents", "content", "page_content", "document", "passage", "passage_text", "body", "segment")
_TITLES = ("title", "headings", "name")


class Lines:
    """The non-blank lines of a file of passages, or of the only one in a folder, by number, read on demand."""

    def __init__(self, path: Path) -> None:
        self.path, place = only_file(path, "*.tsv", "*.jsonl") if path.is_dir() else path, 0
        self._starts = array("q")
        with self.path.open("rb") as file:
            for line in file:
                if line.strip():
                    self._starts.append(place)
                place += len(line)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int) -> Passage:
        """The passage in a line: a document as JSON, or id, text and perhaps a title between tabs.

        Raises:
            IndexForeign: the line does not hold a passage.
        """
        with self.path.open("rb") as file:
            file.seek(self._starts[number])
            content = file.readline()
        try:
            line = content.decode().rstrip("\r\n")
            if not line.startswith("{"):
                id, text, *title = line.split("\t")
                return Passage(id, "".join(title), text)
            document = json.loads(line)
            return passage_of(next((document[key] for key in IDS if key in document), number), document)
        except ValueError as error:
            raise IndexForeign(f"{self.path}: line {number + 1} has no passage ({shorten(error)})") from error


def only_file(folder: Path, *patterns: str) -> Path:
    """The only file in a folder that matches one of the patterns; raises `IndexForeign` unless there is just one."""
    found = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    if len(found) != 1:
        named = " and ".join(path.name for path in found) or "none"
        raise IndexForeign(f"{folder} must hold exactly one of {', '.join(patterns)}; found: {named}")
    return found[0]


def split_title(contents: str) -> tuple[str, str]:
    r"""Split FlashRAG's `contents` into title and text; the title is the first line, perhaps in quotation marks.

    >>> split_title('"Tarn"\nA town on the Isk.')
    ('Tarn', 'A town on the Isk.')
    """
    title, line_end, text = contents.strip().partition("\n")
    return (title.strip().strip('"'), text.strip()) if line_end else ("", title)


def passage_of(id: Any, document: Any) -> Passage:
    """Convert a document to a passage; it is plain text, or a mapping, perhaps as JSON, with the usual field names.

    Raises:
        ValueError: the mapping has no field with text.
    """
    with contextlib.suppress(ValueError):
        read = json.loads(document) if isinstance(document, str) else None
        document = read if isinstance(read, (Mapping, str)) else document  # a text may be 1e5, too
    if not isinstance(document, Mapping):
        return Passage(str(id), "", str(document))
    text = next((document[name] for name in _TEXTS if isinstance(document.get(name), str)), None)
    if text is None:
        raise ValueError(f"the document {id!r} has no text: its fields are {', '.join(map(str, document)) or 'none'}")
    title = next((document[name] for name in _TITLES if isinstance(document.get(name), str)), "")
    if not title and "contents" in document:
        title, text = split_title(text)
    return Passage(str(id), title, text)
