"""Choose what questions are written from: single passages, and pairs that share an entity or are similar.

Every kind of question takes the passages in an order of its own, which the seed and the ids determine: one passage of
every document comes before a second one of any document.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from knowgap.compiling.evaluation.provenance import digest
from knowgap.errors import UsageError
from knowgap.retrieval.passage import Passage, Retriever, document_id
from knowgap.retrieval.words import FUNCTION_WORDS, WORD, words

_SAMPLED = 5000
"""The most passages that questions are written from; a larger index is sampled."""
_FEWEST_WORDS = 12
"""Shorter passages are not used, since they have nothing to ask for."""
_QUERY = 60  # words of a passage with which its neighbours are searched for
_NEIGHBOURS = 5  # hits among which a neighbour is taken
_SAME_WORDS = 0.95  # two passages that share at least this part of their words are copies
_NAMED = 10  # hits among which the passage with a title is looked for
_LONGEST_NAME = 8  # words
_DISAMBIGUATION = re.compile(r"\s*\([^()]*\)\s*$")
_ARTICLES = ("the", "a", "an")


class Material(NamedTuple):
    """The gold passages of a question of some kind: one, or two with the entity that links them, if one does."""

    kind: str
    passages: tuple[Passage, ...]
    link: str = ""

    @property
    def id(self) -> str:
        """An id made from the kind and the passages."""
        return f"{self.kind}-{digest([passage.to_dict() for passage in self.passages])[:12]}"


class Corpus:
    """The passages of an index, as sources of questions, and the index to search for those that belong together.

    Passages are read once; at most 5,000 of them, and all titles, are kept in memory. The seed determines their order.

    Attributes:
        retriever: the index.
    """

    def __init__(self, retriever: Retriever, passages: Iterable[Passage], seed: int = 0) -> None:
        self.retriever, self._seed = retriever, seed
        self._titled: dict[str, str] = {}
        self._seeds = heapq.nsmallest(_SAMPLED, self._read(passages), key=lambda p: self._rank("", p))
        if not self._seeds:
            raise UsageError(f"no passage of the index has {_FEWEST_WORDS} words: there is nothing to ask about")

    def _read(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """Yield the passages that are long enough; note the document that each title names, "" if it names several."""
        for passage in passages:
            title, document = subject(passage.title), _document(passage)
            if title and self._titled.setdefault(title, document) != document:
                self._titled[title] = ""
            if len(words(passage.text)) >= _FEWEST_WORDS:
                yield passage

    def _rank(self, kind: str, passage: Passage) -> bytes:
        return hashlib.sha256(f"{self._seed}\n{kind}\n{passage.id}".encode("utf-8", "surrogatepass")).digest()

    def _ordered(self, kind: str) -> list[Passage]:
        """The passages in the order of a kind: the first of every document, then the second ones."""
        seen: Counter[str] = Counter()
        turns: list[tuple[int, Passage]] = []
        for passage in sorted(self._seeds, key=lambda p: self._rank(kind, p)):
            turns.append((seen[_document(passage)], passage))
            seen[_document(passage)] += 1
        return [passage for _, passage in sorted(turns, key=lambda turn: turn[0])]

    def materials(self, kind: str) -> Iterator[Material]:
        """Yield what questions of a kind can be written from, best first; pairs are searched for as they are taken.

        Pairs that share no document with an earlier pair come first. Two-hop questions prefer pairs of which one names
        the other; comparisons take neighbours that are described in similar words.
        """
        if kind in ("one_hop", "yes_no"):
            yield from (Material(kind, (passage,)) for passage in self._ordered(kind))
            return
        taken: set[frozenset[str]] = set()
        ways: list[Callable[[Passage], Material | None]] = [self._neighbour_by_kind]
        if kind == "two_hop":
            ways = [self._linked, self._neighbour]
        for find in ways:
            found = (find(passage) for passage in self._ordered(kind))
            for material in _spread(pair for pair in found if pair is not None):
                pair = frozenset(passage.id for passage in material.passages)
                if pair not in taken:
                    taken.add(pair)
                    yield material

    def _linked(self, passage: Passage) -> Material | None:
        """A passage and one whose title it mentions."""
        for title in self._mentioned(passage):
            for hit in self._search(title, _NAMED):
                if _document(hit) == self._titled[name_of(title)] and subject(hit.title) == name_of(title):
                    return Material("two_hop", (passage, hit), title)
        return None

    def _mentioned(self, passage: Passage) -> list[str]:
        """The titles of other documents in the text of a passage, as they are written there; one-word titles last."""
        found = [
            title
            for title in mentioned(passage.text, self._titled)
            if self._titled[name_of(title)] not in ("", _document(passage))
        ]
        return sorted(found, key=lambda title: (len(words(title)) == 1, digest([passage.id, title])))

    def _neighbour(self, passage: Passage) -> Material | None:
        """A passage and the nearest one of another document."""
        query = " ".join(str(passage).split()[:_QUERY])
        return self._nearest("two_hop", passage, query)

    def _neighbour_by_kind(self, passage: Passage) -> Material | None:
        """A passage and one of another document that begins in similar words, names aside."""
        own = {*words(passage.title)}
        told = [word for word in passage.text.split()[: _QUERY // 2] if not own & {*words(word)}]
        return self._nearest("comparison", passage, " ".join(told))

    def _nearest(self, kind: str, passage: Passage, query: str) -> Material | None:
        for other in self._search(query, _NEIGHBOURS):
            if _document(other) == _document(passage) or _is_copy(other, passage):
                continue
            if kind != "comparison" or not (self._names(passage, other) or self._names(other, passage)):
                return Material(kind, (passage, other))
        return None

    def _names(self, passage: Passage, other: Passage) -> bool:
        """Whether a passage mentions the title of another one: then they are seldom about things of one kind."""
        return subject(other.title) in map(name_of, self._mentioned(passage))

    def _search(self, query: str, k: int) -> list[Passage]:
        [hits] = self.retriever.search([query], k)
        return [hit.passage for hit in hits if len(words(hit.passage.text)) >= _FEWEST_WORDS]


def _document(passage: Passage) -> str:
    """The document that a passage is a part of: by its id, else by its title, of which several can be parts."""
    return document_id(passage.id) or passage.title.partition(" / ")[0] or passage.id


def _is_copy(one: Passage, other: Passage) -> bool:
    """Whether two passages say the same, but for a few words."""
    first, second = {*words(one.text)}, {*words(other.text)}
    return len(first & second) >= _SAME_WORDS * len(first | second)


def _spread(materials: Iterable[Material]) -> Iterator[Material]:
    """Yield the materials, those first that share no document with an earlier one."""
    used: set[str] = set()
    later: list[Material] = []
    for material in materials:
        documents = {_document(passage) for passage in material.passages}
        if used & documents:
            later.append(material)
        else:
            used |= documents
            yield material
    yield from later


def name_of(written: str) -> str:
    """A name as it is looked up: its words in lower case, without an article before them."""
    parts = words(written)
    return " ".join(parts[1:] if len(parts) > 1 and parts[0] in _ARTICLES else parts)


def subject(title: str) -> str:
    """What a title names, without the headings after a slash and without a disambiguation in brackets."""
    return name_of(_DISAMBIGUATION.sub("", title.partition(" / ")[0]))


def mentioned(text: str, names: Container[str]) -> list[str]:
    """The names that a text mentions, as they are written there, each once; names within longer ones do not count."""
    tokens = [*WORD.finditer(text)]
    found: dict[str, str] = {}
    first = 0
    while first < len(tokens):
        following = first + 1
        for last in range(min(first + _LONGEST_NAME, len(tokens)), first, -1):
            written = text[tokens[first].start() : tokens[last - 1].end()]
            if name_of(written) in names and _is_name(tokens[first:last]):
                following = last
                if last - first > 1 or not _beside_a_name(text, tokens, first):
                    found.setdefault(name_of(written), written)
                break
        first = following
    return list(found.values())


def _is_name(tokens: Sequence[re.Match[str]]) -> bool:
    """Whether words can be a name: the first is neither in lower case nor an article, and one is a content word."""
    parts = [token[0].lower() for token in tokens]
    telling = [part for part in parts if not part.isdigit() and part not in FUNCTION_WORDS]
    return bool(telling) and parts[0] not in _ARTICLES and not tokens[0][0][0].islower() and len("".join(parts)) > 1


def _beside_a_name(text: str, tokens: Sequence[re.Match[str]], place: int) -> bool:
    """Whether a word stands directly beside another one with a capital, as a part of a name that is not known."""
    one = tokens[place]
    for other in (*tokens[max(0, place - 1) : place], *tokens[place + 1 : place + 2]):
        between = text[min(one.end(), other.end()) : max(one.start(), other.start())]
        if between == " " and other[0][0].isupper() and other[0].lower() not in FUNCTION_WORDS:
            return True
    return False
