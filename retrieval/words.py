"""The sentences, words and names of a text: what BM25 counts, what scorers and the check of statements compare."""

from __future__ import annotations

import itertools
import re
import threading
from functools import lru_cache
from typing import NamedTuple

from knowgap.errors import ValueOutOfBounds

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Characters of scripts that are written without spaces: Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
HANGUL = "\uac00-\ud7af"

WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
"""A word, or a single character of a script that is written without spaces."""
LETTERS = re.compile(rf"[{UNSPACED}]+|[{HANGUL}]+|[^\W\d_{UNSPACED}{HANGUL}]+")
"""A run of letters of one kind of script, without digits."""

_GRAMMAR = """
    a an the this that these those it its he they she him her them his hers their theirs i you we me us my your our
    who whom whose which what when where why how and or but nor so if as than then of in on at to for from by with
    into onto about over under between through during after before is are was were be been being am do does did done
    has have had having will would shall should can could may might must there here also both either neither not no
    same other more most much many some any all each every such own only very too just
"""
FUNCTION_WORDS = frozenset(_GRAMMAR.split())
"""English words that carry grammar rather than content."""
_OPENING = """
    since although though while because despite unlike like until once yet however later meanwhile among against
    several according became become
"""
BESIDE = frozenset(_OPENING.split())
"""English words that begin sentences with a capital and are in no name either."""
_TITLES = "mr mrs ms miss dr prof professor sir dame lord lady president king queen prince princess st saint"
TITLES = frozenset(_TITLES.split())
"""English words before a name that another text may leave out."""

_IDEOGRAPHIC_STOP = re.compile(r"(?<=[。！？])(?![。！？」』”’）])")
_OPENINGS = re.compile(r"(?:^|[.!?:]\s|\n)\W*")  # what is before the first word of a sentence
_ITEM = re.compile(r"^(?=[•*-] \S|[^\s:;][^:;\n]{0,60}: [^;\n]*; )", re.M)
"""Where the item of a list begins, or a row of a table that names its columns: `version: 2.2; codename: Potato`."""


@lru_cache(maxsize=16_384)
def split_sentences(text: str) -> tuple[str, ...]:
    """Split a text into its sentences.

    Args:
        text: any text in a language that ends its sentences with a full stop, or in Chinese or Japanese.

    Returns:
        The sentences in order, without surrounding white space. Together they hold every other character of the
        text, so that `"".join("".join(split_sentences(text)).split()) == "".join(text.split())`. A text without
        visible characters has no sentences. Results are cached for the latest 16,384 texts.
    """
    from syntok.segmenter import analyze

    starts = {0}
    for paragraph in analyze(text):
        for sentence in paragraph:
            first = next(iter(sentence), None)
            if first is not None:
                starts.add(first.offset)
    # syntok ends sentences only before white space, which Chinese and Japanese do not write.
    starts.update(match.start() for marks in (_IDEOGRAPHIC_STOP, _ITEM) for match in marks.finditer(text))
    edges = [*sorted(starts), len(text)]
    pieces = (text[start:end].strip() for start, end in itertools.pairwise(edges))
    return tuple(piece for piece in pieces if piece)


def words(text: str) -> list[str]:
    """The lower-cased words of a text, in order."""
    return WORD.findall(text.lower())


def content_words(text: str) -> list[str]:
    """The distinct lower-cased words of a text without the function words, in order."""
    return [word for word in dict.fromkeys(words(text)) if word not in FUNCTION_WORDS]


class Analyzer:
    """Reduces the words of a text to stems, which are counted and searched. Thread-safe.

    Args:
        stemmer: a Snowball language of PyStemmer; None leaves words as they are.

    Raises:
        ValueOutOfBounds: there is no such language.
    """

    def __init__(self, stemmer: str | None) -> None:
        import Stemmer

        if stemmer is not None and stemmer not in Stemmer.algorithms():
            raise ValueOutOfBounds(f"stemmer = {stemmer!r}: known are {', '.join(Stemmer.algorithms())}, or None")
        self._english, self._lock = stemmer == "english", threading.Lock()
        self._stemmer = None if stemmer is None else Stemmer.Stemmer(stemmer)

    def stem(self, words: list[str]) -> list[str]:
        """The stem of each word."""
        with self._lock:
            return words if self._stemmer is None else self._stemmer.stemWords(words)

    def __call__(self, text: str) -> list[str]:
        """The stem of each word of a text."""
        return self.stem(words(text))

    def query(self, text: str) -> list[str]:
        """The stem of each word of a query; function words are left out unless there are no others."""
        if not self._english:
            return self(text)
        return self.stem([word for word in words(text) if word not in FUNCTION_WORDS]) or self(text)


_english = lru_cache(maxsize=1)(lambda: Analyzer("english"))


@lru_cache(maxsize=65_536)
def english_stem(word: str) -> str:
    """The stem of an English word."""
    return _english().stem([word])[0]


class Name(NamedTuple):
    """A run of words with capitals: its place, its words with initials as one, and whether it is a name for sure."""

    place: tuple[int, int]
    words: list[str]
    certain: bool


def names(text: str) -> list[Name]:
    """The names of a text, without function words before them."""
    runs, end = list[list[re.Match[str]]](), 0
    for match in (match for match in LETTERS.finditer(text) if match[0][0].isupper()):
        before = runs[-1][-1][0] if runs else ""
        dotted = len(before) == 1 or before.lower() in TITLES
        if runs and re.fullmatch(r"[ \n]|[-']" + r"|\. ?" * dotted, text[end : match.start()]):
            runs[-1].append(match)
        else:
            runs.append([match])
        end = match.end()
    found, openings = list[Name](), {match.end() for match in _OPENINGS.finditer(text)}
    for run in runs:
        opens = run[0].start() in openings
        while run and (_is_grammar(run[0][0]) or (opens and re.search(".{3}(?:ed|ing|ly)$", run[0][0]))):
            run, opens = run[1:], False
        parts = re.sub(r"\b(\w) (?=\w\b)", r"\1", " ".join(match[0] for match in run)).split()
        if parts and parts != ["I"]:
            certain = not (opens and len(run) == 1 and run[0][0][1:].islower())
            found.append(Name((run[0].start(), run[-1].end()), parts, certain))
    return found


def _is_grammar(word: str) -> bool:
    """Whether a word with a capital is a function word, unlike "WHO"."""
    return word.lower() in FUNCTION_WORDS | BESIDE and not (len(word) > 1 and word.isupper())
