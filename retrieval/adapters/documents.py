"""The base class of retrievers that ask another tool or a server, and the conversion of documents to passages."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from knowgap.errors import IndexFolderError, shorten
from knowgap.retrieval.documents.sources import batches
from knowgap.retrieval.passage import Hit, NeverCopied, Passage, check_k, rank_hits

_AT_ONCE = 64
_TEXTS = ("text", "contents", "content", "page_content", "document", "passage", "passage_text", "paragraph_text")
_TEXTS = (*_TEXTS, "body", "segment")
_TITLES = ("title", "headings", "name")


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


class Adapter(NeverCopied):
    """Searches an index of another tool, or on another machine, with batches of queries.

    Attributes:
        name: the kind of index, and where it is.
    """

    name: str

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The `k` best passages for each query by the index's own scores; none for a blank one.

        Raises:
            ValueOutOfBounds: k < 1.
            IndexMissing: no server answers.
            IndexFolderError: a server refuses the search, or its answer does not hold passages.
        """
        return self._search(queries, k, self._ask)

    def _search(
        self, queries: Sequence[str], k: int, ask: Callable[[list[str], int], Iterable[Found]]
    ) -> list[list[Hit]]:
        check_k(k)
        # JSON and URLs cannot hold a lone surrogate, which a language model may write; it becomes a question mark.
        encodable = [query.encode("utf-8", "replace").decode() for query in queries]
        distinct = [query for query in dict.fromkeys(encodable) if query.strip()]
        found: dict[str, Found] = {}
        for asked in batches(distinct, _AT_ONCE):
            try:
                found |= zip(asked, ask(asked, k), strict=True)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                problem = f"answered with something other than passages ({shorten(repr(error), 120)})"
                raise IndexFolderError(f"{self.name}: {problem}") from error
        return [rank_hits(found.get(query, ()), k) for query in encodable]

    @abstractmethod
    def _ask(self, queries: list[str], k: int) -> Iterable[Found]:
        """The passages for each query with their scores."""
