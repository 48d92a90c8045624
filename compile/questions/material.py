"""Choose what questions are written from: single passages, and pairs that share an entity or are similar.

Every kind of question takes the passages in an order of its own, which the seed and the ids determine: one passage of
every document comes before a second one of any document.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from knowgap.errors import UsageError
from knowgap.retrieval.passage import Passage, document_id
from knowgap.retrieval.words import names, words
from knowgap.storage.files import json_digest

_SAMPLED = 5000
"""The most passages that questions are written from; a larger index is sampled."""
_FEWEST_WORDS = 12
"""Shorter passages are not used, since they have nothing to ask for."""
_QUERY = 60  # words of a passage with which its neighbours are searched for
_NEIGHBOURS = 5  # hits among which a neighbour is taken
_NAMES = 12  # names of a passage that are looked for
_BESIDE_THE_SUBJECT = re.compile(r"^(the|an?) | / .*|\s*\([^()]*\)\s*$", re.IGNORECASE)


class Material(NamedTuple):
    """The gold passages of a question of some kind: one, or two with the entity that links them, if one does."""

    kind: str
    passages: tuple[Passage, ...]
    link: str = ""

    @property
    def id(self) -> str:
        """An id made from the kind and the passages."""
        return f"{self.kind}-{json_digest([passage.to_dict() for passage in self.passages])[:12]}"


class Corpus:
    """The passages of an index, as sources of questions; it is searched for those that belong together.

    Passages are read once; at most 5,000 of them are kept in memory. The seed determines their order.
    """

    def __init__(self, index: Any, seed: int = 0) -> None:
        self._index, self._seed = index, seed
        self._seeds = heapq.nsmallest(_SAMPLED, filter(_is_long, index), key=lambda p: self._rank("", p))
        if not self._seeds:
            raise UsageError(f"no passage of the index has {_FEWEST_WORDS} words: there is nothing to ask about")

    def _rank(self, kind: str, passage: Passage) -> bytes:
        return hashlib.sha256(f"{self._seed}\n{kind}\n{passage.id}".encode("utf-8", "surrogatepass")).digest()

    def _ordered(self, kind: str) -> list[Passage]:
        """The passages in the order of a kind: the first of every document, then the second ones."""
        documents: dict[str, list[Passage]] = defaultdict(list)
        for passage in sorted(self._seeds, key=lambda p: self._rank(kind, p)):
            documents[_document(passage)].append(passage)
        return [each for turn in itertools.zip_longest(*documents.values()) for each in turn if each is not None]

    def materials(self, kind: str) -> Iterator[Material]:
        """Yield what questions of a kind can be written from, best first; pairs are searched for as they are taken.

        Pairs of which one passage names the other come first.
        """
        if kind == "one_hop":
            yield from (Material(kind, (passage,)) for passage in self._ordered(kind))
            return
        taken: set[frozenset[Passage]] = set()
        for find in (self._linked, self._neighbour):
            for pair in filter(None, map(find, self._ordered(kind))):
                if (passages := frozenset(pair.passages)) not in taken:
                    taken.add(passages)
                    yield pair

    def _linked(self, passage: Passage) -> Material | None:
        """A passage and one that it names by its title, unless several documents have that title."""
        asked = [passage.text[slice(*name.place)] for name in names(passage.text)]
        hits = self._search(list(dict.fromkeys(asked))[:_NAMES])
        titled: dict[str, set[str]] = {}
        for hit in hits:
            titled.setdefault(subject(hit.title), set()).add(_document(hit))
        for hit in hits:
            title = subject(hit.title)
            if len(titled[title]) == 1 and _document(hit) != _document(passage) and mentions(passage.text, title):
                return Material("two_hop", (passage, hit), title)
        return None

    def _neighbour(self, passage: Passage) -> Material | None:
        """A passage and the nearest one of another document."""
        for other in self._search([" ".join(str(passage).split()[:_QUERY])]):
            if _document(other) != _document(passage):
                return Material("two_hop", (passage, other))
        return None

    def _search(self, queries: list[str]) -> list[Passage]:
        found = self._index.search(queries, _NEIGHBOURS) if queries else []
        return [hit.passage for hits in found for hit in hits if _is_long(hit.passage)]


def _is_long(passage: Passage) -> bool:
    return len(words(passage.text)) >= _FEWEST_WORDS


def _document(passage: Passage) -> str:
    """The document that a passage is a part of: by its id, else by its title, of which several can be parts."""
    return document_id(passage.id) or passage.title.partition(" / ")[0] or passage.id


def subject(title: str) -> str:
    """What a title names: without an article, the headings after a slash, and a disambiguation in brackets."""
    return _BESIDE_THE_SUBJECT.sub("", title)


def mentions(text: str, title: str) -> bool:
    """Whether a text has a title in it, and not within a longer name."""
    own = [name.words for name in names(title)]
    if len(own) == 1 and own[0] == title.split():  # a title with other words than names is told by its letters
        return own[0] in [name.words for name in names(text)]
    return bool(title) and re.search(rf"\b{re.escape(title)}\b", text) is not None and title[0].isupper()
