"""The documents of other people's indexes as passages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from knowgap.retrieval.passage import Hit, Passage, rank_hits

_TEXTS = ("text", "contents", "content", "page_content", "document", "passage", "passage_text", "paragraph_text")
_TEXTS = (*_TEXTS, "body", "segment")
_TITLES = ("title", "headings", "name")


def split_title(contents: str) -> tuple[str, str]:
    r"""Title and text of FlashRAG's `contents`: the title, perhaps in quotation marks, in a line of its own.

    >>> split_title('"Tarn"\nA town on the Isk.')
    ('Tarn', 'A town on the Isk.')
    """
    title, line_end, text = contents.strip().partition("\n")
    return (title.strip().strip('"'), text.strip()) if line_end else ("", title)


def passage_of(id: Any, document: Any) -> Passage:
    """The passage of a document: its text as it is, JSON of one, or fields of the names that are in use.

    Raises:
        ValueError: it has no field with text.
    """
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except ValueError:
            return Passage(str(id), "", document)
    if not isinstance(document, Mapping):
        return Passage(str(id), "", str(document))
    text = next((document[name] for name in _TEXTS if isinstance(document.get(name), str)), None)
    if text is None:
        raise ValueError(f"the document {id!r} has no text: its fields are {', '.join(map(str, document)) or 'none'}")
    about = document.get("metadata")  # where LangChain keeps all but the text
    known = {**about, **document} if isinstance(about, Mapping) else document
    title = next((known[name] for name in _TITLES if isinstance(known.get(name), str)), "")
    if not title and "contents" in document:
        title, text = split_title(text)
    return Passage(str(id), title, text)


Found = Sequence[tuple[Passage, float]]


def in_order(queries: Sequence[str], found: Mapping[str, Found], k: int) -> list[list[Hit]]:
    """The hits of each query, from what was found for each different one; none for a blank query."""
    return [rank_hits(found.get(query, ()), k) for query in queries]
