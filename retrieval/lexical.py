"""The words of a text, which BM25 counts and the embedded scorers compare."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import lru_cache

from knowgap.errors import ValueOutOfBounds

_GRAMMAR = """
    a an the this that these those it its he she they him her them his hers their theirs i you we me us my your our
    who whom whose which what when where why how and or but nor so if as than then of in on at to for from by with
    into onto about over under between through during after before is are was were be been being am do does did done
    has have had having will would shall should can could may might must there here also both either neither not no
    same other more most much many some any all each every such own only very too just
"""

FUNCTION_WORDS = frozenset(_GRAMMAR.split())
"""English words that carry grammar rather than content."""

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


def words(text: str) -> list[str]:
    """The lower-cased words of a text, in order; each CJK character is a word."""
    return _WORD.findall(text.lower())


def content_words(text: str) -> list[str]:
    """The distinct lower-cased words of a text without the function words, in order."""
    return [word for word in dict.fromkeys(words(text)) if word not in FUNCTION_WORDS]


class Stemmer:
    """Reduces words to stems by a Snowball language of PyStemmer. Its objects are not thread-safe: each thread has one.

    Raises:
        ValueOutOfBounds: there is no such language.
    """

    def __init__(self, language: str) -> None:
        import Stemmer

        if language not in Stemmer.algorithms():
            raise ValueOutOfBounds(f"stemmer = {language!r}: known are {', '.join(Stemmer.algorithms())}, or None")
        self._language, self._local = language, threading.local()

    def __reduce__(self) -> tuple[type[Stemmer], tuple[str]]:
        return type(self), (self._language,)

    def __call__(self, words: Sequence[str]) -> list[str]:
        """The stem of each word."""
        if not hasattr(self._local, "stemmer"):
            import Stemmer

            self._local.stemmer = Stemmer.Stemmer(self._language)
        return self._local.stemmer.stemWords(words)


class Analyzer:
    """Reduces the words of a text to stems, which are counted and searched; None leaves words as they are."""

    def __init__(self, stemmer: str | None) -> None:
        self._english = stemmer == "english"
        self._stem = list if stemmer is None else Stemmer(stemmer)

    def __call__(self, text: str) -> list[str]:
        """The stem of each word of a text."""
        return self._stem(words(text))

    def query(self, text: str) -> list[str]:
        """The stem of each word of a query; function words are left out unless there are no others."""
        if not self._english:
            return self(text)
        return self._stem([word for word in words(text) if word not in FUNCTION_WORDS]) or self(text)


class Stemmed:
    """Reduces texts to the stems of their English words, with a cache of the latest texts. Thread-safe."""

    def __init__(self) -> None:
        stem = Stemmer("english")
        self.word = lru_cache(65_536)(lambda word: stem([word])[0])
        self._text = lru_cache(8_192)(lambda text: frozenset(map(self.word, words(text))))

    def __call__(self, text: str) -> frozenset[str]:
        """The stems of the words of a text."""
        return self._text(text)
