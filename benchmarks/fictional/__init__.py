"""The fictional encyclopedia: passages and questions that no language model can have read.

People, films, novels, companies, cities, rivers, countries, bands, albums, universities and appliances with invented
names, in articles of several sentences that word each relation in several ways, among namesakes, codes that differ in a
digit, and articles that no question needs. A right answer therefore comes from retrieval and reading, not from memory.
Most questions need a passage that the question's own words do not find, and a tenth have no answer in any passage.

The encyclopedia is a series of 458 worlds (`fictional.world`) of 312 passages that share no entity. Each
world is the same to the byte on every machine and version of Python. The splits share no wording of a question.

The sample that comes with knowgap is the three worlds of seed 0, one each for train, dev and test;
`benchmarks/write_sample.py` writes its files, or those of another seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count, islice

import dspy

from fictional.articles import write_articles
from fictional.questions import ask_questions
from fictional.world import World
from knowgap.retrieval.passage import Passage

__all__ = ["stream_passages", "stream_questions"]


def stream_passages(n: int) -> Iterator[Passage]:
    """Write the first `n` passages, one world in memory at a time; all ids differ."""
    return islice(chain.from_iterable(write_articles(World(number)) for number in count()), n)


def stream_questions(n: int) -> Iterator[dspy.Example]:
    """Ask the first `n` questions, 100 about each world."""
    return islice(chain.from_iterable(ask_questions(World(number)) for number in count()), n)
