"""The fictional encyclopedia: passages and questions that no language model can have read.

People, films, novels, companies, cities, rivers, countries, bands, albums and universities with invented names, in
articles of several sentences that word each relation in several ways, among namesakes and articles that answer nothing.
What an answer shows is therefore retrieval and reading, not memory.

The encyclopedia consists of worlds (`knowgap.compile.data.fictional_world`) of some 330 passages that share no entity.
Train, dev and test ask about different worlds; one corpus holds them all. Everything follows from the seed, to the
byte, on every machine and version of Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache

import dspy

from knowgap.compile.data.dataset import SPLITS, Dataset, fingerprint
from knowgap.compile.data.fictional_questions import ask_questions
from knowgap.compile.data.fictional_text import write_articles
from knowgap.compile.data.fictional_world import build_world
from knowgap.errors import ValueOutOfBounds
from knowgap.retrieval.passage import Passage

__all__ = ["QUESTIONS_PER_WORLD", "fictional", "sample", "stream_passages", "stream_questions"]

QUESTIONS_PER_WORLD = 100


def stream_passages(n: int, seed: int = 0) -> Iterator[Passage]:
    """The first `n` passages of the encyclopedia of that seed, in constant memory.

    Ids are unique however many are drawn, and a longer stream begins with the shorter one.
    """
    number = 0
    while n > 0:
        for passage in write_articles(build_world(number, seed), seed)[:n]:
            yield passage
            n -= 1
        number += 1


def stream_questions(n: int, seed: int = 0) -> Iterator[dspy.Example]:
    """The first `n` questions of the encyclopedia of that seed, `QUESTIONS_PER_WORLD` of each world."""
    number = 0
    while n > 0:
        for example in ask_questions(build_world(number, seed), QUESTIONS_PER_WORLD, seed)[:n]:
            yield example
            n -= 1
        number += 1


def fictional(passages: int = 900, questions: int | None = None, seed: int = 0) -> Dataset:
    """A data set of about so many passages.

    Args:
        passages: at least so many, rounded up to whole worlds of some 330 and at least three worlds.
        questions: how many at most, divided evenly; `QUESTIONS_PER_WORLD` for each world where None.
        seed: another seed, another encyclopedia.

    Returns:
        Worlds are dealt to train, dev and test in turn, so that the splits share no entity.

    Raises:
        ValueOutOfBounds: a number below 1.
    """
    for name, value in (("passages", passages), ("questions", questions)):
        if value is not None and value < 1:
            raise ValueOutOfBounds(f"{name} {value}: must be at least 1")
    splits: dict[str, list[dspy.Example]] = {split: [] for split in SPLITS}
    corpus: list[Passage] = []
    number = 0
    while len(corpus) < passages or number < len(SPLITS):
        world = build_world(number, seed)
        corpus.extend(write_articles(world, seed))
        splits[SPLITS[number % len(SPLITS)]].extend(ask_questions(world, QUESTIONS_PER_WORLD, seed))
        number += 1
    if questions is not None:
        for place, split in enumerate(SPLITS):
            splits[split] = splits[split][: questions // 3 + (place < questions % 3)]
    every = [example for examples in splits.values() for example in examples]
    return Dataset(f"fictional:{passages}", splits, corpus, fingerprint(every, corpus))


@lru_cache(maxsize=1)
def _sample() -> Dataset:
    data = fictional()
    return Dataset("sample", data.splits, tuple(data.corpus), data.fingerprint)


def sample() -> Dataset:
    """The bundled sample: about 1,000 passages and 300 questions, 100 in each of train, dev and test."""
    data = _sample()
    # Fresh examples each time: what a caller does to one must not reach the next caller.
    return Dataset(data.name, deepcopy(dict(data.splits)), data.corpus, data.fingerprint)
