"""The features of entailment: words, names and numbers of premise and hypothesis, their order, and MiniLM's vectors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.lexical import FUNCTION_WORDS, Stemmed, numbers, words
from knowgap.retrieval.lexical import names as capital_words
from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.minilm import sentence_encoder, unit
from knowgap.retrieval.sentences import split_sentences

FEATURES = (
    "similarity",  # cosine with the nearest sentence
    "similarity of the premise",  # cosine with the mean of its sentences
    "late interaction",  # mean over its tokens, by rarity, of the highest cosine with a token of the premise
    "late interaction, one sentence",  # the same for the best sentence of the premise
    "worst token",  # the lowest of these cosines among tokens that are not frequent
    "coverage",  # share of the content words, by rarity, that the premise has
    "coverage, one sentence",  # the same for the best sentence with the title
    "plain words covered",  # the same for words that are neither names nor numbers
    "uncovered words",  # how many content words the premise lacks, as log(1 + n)
    "names missing",  # share of the names of which the premise has no word, or the last word of another name only
    "names by their end",  # share of the names of which it has the last word by itself, or with a part of the name
    "names by another part",  # share of the names of which it has some other word
    "a name missing",  # 1 if it lacks one
    "numbers missing",  # share of the numbers that the premise lacks
    "a number missing",  # 1 if it lacks one
    "negation added",  # the hypothesis has a negation, the nearest sentence none
    "negation dropped",  # the reverse
    "pairs of words",  # share of neighbouring content words that are neighbours in the premise
    "names in another order",  # share of pairs of names whose order differs in the nearest sentence that has both
    "words in another order",  # the same for all content words of the nearest sentence
    "turned round on one side",  # one of hypothesis and nearest sentence names the object first: made by, the maker of
    "other order, not turned",  # names in another order, and both or neither are turned round
    "same order, turned",  # names in the same order, and one of them is turned round
    "names apart",  # share of the matched names and numbers that are not in the nearest sentence or the title
    "distance",  # mean, 0 to 1, from a matched name or number to the nearest matched plain word of its sentence
    "length",  # log(1 + number of content words)
)

_IS = r"(?:is|was|are|were)"
_TURNED = re.compile(rf"\bby\b|\bof\b.*\b{_IS}\b|['’]s? (?:\w+ ){{1,3}}{_IS}\b", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not|no|never|none|neither|nor|without|cannot)\b|n['’]t\b", re.IGNORECASE)
_WORD = re.compile(r"\d[\d,.]*\d|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W_]+")
_JOINS = r"(?:of|de|da|di|du|del|della|des|la|le|van|von|der|den|bin|ibn|al|el|y|the)"
_CAPITAL = r"[^\W\d_a-z][\w’'-]*\.?"
_NAME = re.compile(rf"{_CAPITAL}(?:(?:\s+{_JOINS}){{0,2}}\s+(?:{_CAPITAL}|\d+(?=\s|$)))*|{_CAPITAL}")
_BESIDE_NAMES = """
    mr mrs ms miss dr prof professor sir dame lord lady president king queen prince princess saint captain general
    since although though while because despite unlike like until once yet however later meanwhile
"""
_BESIDE = frozenset(_BESIDE_NAMES.split())  # capitalized words before a name that are not part of it
_LEAST_WEIGHT = 0.2  # added to the rarity of each word and token
_LONGEST_TITLE = 120
_RARE = 0.35  # the least rarity of a token for the feature "worst token"
_FARTHEST = 12  # words; a larger distance counts as this one


stemmed = Stemmed()


@dataclass(frozen=True, slots=True)
class Word:
    """A content word, which is text[start:end]."""

    stem: str  # lower-cased, without its ending
    start: int
    end: int
    kind: str  # `name`, `number` or `word`


def negated(text: str) -> bool:
    """Whether a text has a word of negation."""
    return bool(_NEGATION.search(text))


def name_runs(text: str) -> list[tuple[str, int]]:
    """The names of a text, each a run of words with capitals, and where it starts.

    Function words at the start of a run do not belong to it. A single capitalized word that starts a sentence is not a
    name.
    """
    found = []
    for match in _NAME.finditer(text):
        name, start = match.group().rstrip(".,'’"), match.start()
        while (first := re.match(r"[\w’'-]+\.?\s*", name)) and first.group().strip().rstrip(
            "."
        ).lower() in FUNCTION_WORDS:
            name, start = name[first.end() :], start + first.end()
        alone = len(name.split()) == 1
        opens = re.search(r"(?:^|[.!?:]\s+|\n)[\"“(']*$", text[:start]) is not None
        if name and not (alone and opens and name[1:].islower() and start == match.start()):
            found.append((name, start))
    return found


@lru_cache(maxsize=16_384)
def read_words(text: str) -> tuple[Word, ...]:
    """The content words of a text, in order."""
    inside = [(start, start + len(name)) for name, start in name_runs(text)]
    found = []
    for match in _WORD.finditer(text):
        word = match.group().lower()
        if word in FUNCTION_WORDS or word == "s":
            continue
        is_name = any(a <= match.start() < b for a, b in inside)
        figures = numbers(word)
        kind = "number" if figures else "name" if is_name else "word"
        stem = min(figures) if len(figures) == 1 and word[-1].isdigit() else stemmed.word(word)
        found.append(Word(stem, match.start(), match.end(), kind))
    return tuple(found)


class _Text(NamedTuple):
    mean: npt.NDArray[np.float32]
    tokens: npt.NDArray[np.float16]
    rarity: npt.NDArray[np.float32]


class EntailmentFeatures:
    """Computes the features of (premise, hypothesis) pairs. Thread-safe; remembers the latest 4,096 encoded texts."""

    def __init__(self) -> None:
        self._texts: LRUCache[str, _Text] = LRUCache(4096)

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        """The features of pairs, neither side blank; [pairs, features]."""
        premises = {premise: _read_premise(premise) for premise, _ in pairs}
        wanted = dict.fromkeys([*(s for read in premises.values() for s in read.sentences), *(h for _, h in pairs)])
        encoded = dict(zip(wanted, self._texts.get(list(wanted), _encode), strict=True))
        return np.array([_features(premises[premise], hypothesis, encoded) for premise, hypothesis in pairs])


def _encode(texts: Sequence[str]) -> list[_Text]:
    found = []
    for states, is_word, rarity in sentence_encoder().encode_tokens(texts):
        kept = is_word if is_word.any() else np.ones_like(is_word)
        mean, tokens = states.mean(0), unit(states[kept]).astype(np.float16)
        found.append(_Text(mean / max(float(np.linalg.norm(mean)), 1e-9), tokens, rarity[kept]))
    return found


class _Premise(NamedTuple):
    sentences: list[str]
    titles: set[str]  # stems
    stems: frozenset[str]  # of all words
    names: list[list[str]]  # stems of each
    capitals: frozenset[str]  # stems of words with a capital


def _read_premise(premise: str) -> _Premise:
    """Read a premise, which has a passage on each line: its sentences, the stems of the titles, and names."""
    sentences: list[str] = []
    titles: set[str] = set()
    for line in premise.splitlines():
        title, colon, _ = line.partition(": ")
        if colon and len(title) <= _LONGEST_TITLE:
            titles |= {word.stem for word in read_words(title)}
        sentences += split_sentences(line)
    names = [name for sentence in sentences for name in _names(sentence)]
    return _Premise(sentences, titles, stemmed(premise), names, frozenset(map(stemmed.word, capital_words(premise))))


def _features(premise: _Premise, hypothesis: str, encoded: dict[str, _Text]) -> list[float]:
    sentences, titles = premise.sentences, premise.titles
    own, parts = encoded[hypothesis], [encoded[sentence] for sentence in sentences]
    similarities = np.array([float(part.mean @ own.mean) for part in parts])
    matches = np.stack([(own.tokens.astype(np.float32) @ p.tokens.astype(np.float32).T).max(axis=1) for p in parts])
    weights = _LEAST_WEIGHT + own.rarity
    weights = weights / weights.sum()
    best, rare = matches.max(axis=0), own.rarity >= _RARE
    worst = float(best[rare].min()) if rare.any() else float(best.min())
    # The nearest sentence is the most similar one, in words and in meaning.
    said, inside = read_words(hypothesis), [read_words(sentence) for sentence in sentences]
    rarity = dict(
        zip(said, sentence_encoder().rarity([hypothesis[w.start : w.end].lower() for w in said]), strict=True)
    )
    cover = [_coverage(said, rarity, {w.stem for w in some} | titles) for some in inside]
    nearest = int(np.argmax(similarities + np.array(cover)))
    stems = premise.stems | {word.stem for some in inside for word in some}
    mean = np.mean([part.mean for part in parts], axis=0)
    return [
        float(similarities.max()),
        float(mean @ own.mean),
        float(best @ weights),
        float((matches @ weights).max()),
        worst,
        _coverage(said, rarity, stems),
        max(cover),
        _coverage([w for w in said if w.kind == "word"], rarity, stems),
        float(np.log1p(sum(w.stem not in stems for w in said))),
        *_name_shares(_names(hypothesis), premise, stems),
        *_numbers(said, stems),
        float(negated(hypothesis) and not negated(sentences[nearest])),
        float(negated(sentences[nearest]) and not negated(hypothesis)),
        _neighbours(said, inside),
        *_order(said, inside[nearest], turned(hypothesis) != turned(sentences[nearest])),
        *_places(said, inside, nearest, titles),
        float(np.log1p(len(said))),
    ]


def _coverage(said: Sequence[Word], rarity: dict[Word, float], stems: set[str] | frozenset[str]) -> float:
    total = sum(_LEAST_WEIGHT + rarity[w] for w in said)
    return sum(_LEAST_WEIGHT + rarity[w] for w in said if w.stem in stems) / total if total else 1.0


def _names(text: str) -> list[list[str]]:
    """The stems of the words of each name of a text."""
    runs = [words(re.sub(r"['’]s\b", "", name)) for name, _ in name_runs(text)]
    kept = [[w for w in run if w not in FUNCTION_WORDS and w not in _BESIDE] or run for run in runs]
    return [[stemmed.word(word) for word in run] for run in kept if run]


def _name_shares(names: Sequence[Sequence[str]], premise: _Premise, stems: frozenset[str]) -> list[float]:
    """The shares of the names that are missing, found by their last word, or by another; and whether one is missing."""
    found = [_found(name, premise, stems) for name in names]
    count = max(1, len(found))
    return [*(found.count(how) / count for how in ("missing", "end", "part")), float("missing" in found)]


def _found(name: Sequence[str], premise: _Premise, stems: frozenset[str]) -> str:
    """How a premise contains a name: `whole`, by its `end`, by another `part`, or `missing`.

    The last word of a name does not count if the premise first has it in another name: Ada Moor is not John Moor, and
    Tarn Bridge is not Orle Bridge.
    """
    if any(_within(name, other) for other in premise.names):
        return "whole"
    if name[-1] not in stems:
        return "part" if any(word in stems for word in name if len(word) > 1) else "missing"
    if not _within(next((other for other in premise.names if other[-1] == name[-1]), name), name):
        return "missing"
    if all(word in stems for word in name):
        return "whole"
    return "end" if name[-1] in premise.capitals else "missing"


def _within(some: Sequence[str], name: Sequence[str]) -> bool:
    """Whether all words of a name are in another one; an initial matches a word."""
    return all(any(w == v or (1 in (len(w), len(v)) and w[0] == v[0]) for v in name) for w in some)


def _numbers(said: Sequence[Word], stems: frozenset[str]) -> list[float]:
    figures = [w.stem for w in said if w.kind == "number"]
    missing = sum(f not in stems for f in figures)
    return [missing / max(1, len(figures)), float(missing > 0)]


def turned(text: str) -> bool:
    """Whether a sentence names the agent after the object, as in "made by A" and "the maker of B is A"."""
    return bool(_TURNED.search(text))


def _neighbours(said: Sequence[Word], inside: Sequence[Sequence[Word]]) -> float:
    pairs = {(a.stem, b.stem) for some in inside for a, b in itertools.pairwise(some)}
    own = [(a.stem, b.stem) for a, b in itertools.pairwise(said)]
    return sum(pair in pairs for pair in own) / max(1, len(own))


def _order(said: Sequence[Word], sentence: Sequence[Word], turn: bool) -> list[float]:
    """The five features of order; `turn` says whether just one of hypothesis and sentence is turned round."""
    place: dict[str, int] = {}
    for i, word in enumerate(sentence):
        place.setdefault(word.stem, i)
    shared = list(dict.fromkeys(w.stem for w in said if w.stem in place))
    named = list(dict.fromkeys(w.stem for w in said if w.stem in place and w.kind != "word"))
    names, every = _inversions([place[s] for s in named]), _inversions([place[s] for s in shared])
    same = float(turn) * (1 - names) if len(named) > 1 else 0.0
    return [names, every, float(turn), names * (1 - float(turn)), same]


def _inversions(places: Sequence[int]) -> float:
    pairs = [(a, b) for i, a in enumerate(places) for b in places[i + 1 :]]
    return sum(a > b for a, b in pairs) / len(pairs) if pairs else 0.0


def _places(said: Sequence[Word], inside: Sequence[Sequence[Word]], nearest: int, title: set[str]) -> list[float]:
    """The features "names apart" and "distance"."""
    here, plain = {w.stem for w in inside[nearest]}, {w.stem for w in said if w.kind == "word"}
    stems = {w.stem for some in inside for w in some}
    values = [w.stem for w in said if w.kind != "word" and w.stem in stems]
    apart = sum(v not in here and v not in title for v in values) / max(1, len(values))
    gaps = []
    for value in (v for v in values if v not in title):
        nearest_gap = _FARTHEST
        for some in inside:
            at = [i for i, w in enumerate(some) if w.stem == value]
            of = [i for i, w in enumerate(some) if w.stem in plain]
            nearest_gap = min([nearest_gap, *(abs(i - j) for i in at for j in of)])
        gaps.append(nearest_gap / _FARTHEST)
    return [apart, sum(gaps) / max(1, len(gaps))]
