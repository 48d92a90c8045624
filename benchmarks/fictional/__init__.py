"""The fictional encyclopedia: passages and questions that no language model can have read.

People, films, novels, companies, cities, rivers, countries, bands, albums, universities and appliances with invented
names, in articles of several sentences that word each relation in several ways, among namesakes, codes that differ in a
digit, and articles that no question needs. A right answer therefore comes from retrieval and reading, not from memory.
Most questions need a passage that the question's own words do not find, and a tenth have no answer in any passage.

The encyclopedia is a series of 458 worlds (`fictional.world`) of 312 passages that share no entity. Each
world is the same to the byte on every machine and version of Python. The splits share no wording of a question.

The sample that comes with knowgap is the three worlds of seed 0, one each for train, dev and test. Rewrite its files,
or write those of another seed or a larger data set of the same kind, with

    python benchmarks/write_sample.py
    python benchmarks/write_sample.py FOLDER --seed 5
    python benchmarks/write_sample.py FOLDER --passages 20000
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import dspy

from fictional.articles import write_articles
from fictional.questions import ask_questions
from fictional.world import SAMPLE_SEED, UNSEEN_SEEDS, WORLDS_PER_SEED, World
from knowgap.compiling.data.dataset import SPLITS
from knowgap.retrieval.passage import Passage

__all__ = ["stream_passages", "stream_questions", "write_dataset"]

_QUESTIONS_PER_WORLD = 100


def stream_passages(n: int) -> Iterator[Passage]:
    """Write the first `n` passages, one world in memory at a time; all ids differ."""
    return islice((passage for number in _numbers() for passage in write_articles(World(number))), n)


def stream_questions(n: int) -> Iterator[dspy.Example]:
    """Ask the first `n` questions, 100 about each world."""
    asked = (ask_questions(World(number), _QUESTIONS_PER_WORLD) for number in _numbers())
    return islice(chain.from_iterable(asked), n)


def write_dataset(folder: Path, passages: int = 0, seed: int = SAMPLE_SEED) -> None:
    """Write `corpus.jsonl`, `train.jsonl`, `dev.jsonl` and `test.jsonl`, which `knowgap.load_dataset(folder)` reads.

    Args:
        folder: made where it does not exist; files of these names in it are replaced.
        passages: write whole worlds until the corpus has at least this many, and at least three worlds. The worlds go
            to train, dev and test in turn, so that the splits share no entity.
        seed: the first world is this seed's; those after its third are the next seeds'.
    """
    corpus: list[Passage] = []
    splits: dict[str, list[dspy.Example]] = {split: [] for split in SPLITS}
    first = seed * WORLDS_PER_SEED
    own = range(first, first + WORLDS_PER_SEED)
    for number in chain(own, _numbers(own.stop)):
        if len(corpus) >= passages and number not in own:
            break
        corpus += write_articles(World(number))
        splits[SPLITS[number % len(SPLITS)]] += ask_questions(World(number), _QUESTIONS_PER_WORLD)
    folder.mkdir(parents=True, exist_ok=True)
    files = {"corpus": [passage.to_dict() for passage in corpus]}
    files |= {split: list(map(_record, examples)) for split, examples in splits.items()}
    for name, records in files.items():
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8", newline="\n")


def _numbers(first: int = 0) -> Iterator[int]:
    """The numbers of the worlds, without those of the seeds that are kept apart."""
    return (number for number in count(first) if number // WORLDS_PER_SEED not in UNSEEN_SEEDS)


def _record(example: dspy.Example) -> dict[str, Any]:
    """A question in the layout of users' own JSON Lines."""
    fields = ("id", "question", "answer", "type", "gold_ids", "evidences", "decomposition")
    return {field: example.aliases if field == "answer" else example[field] for field in fields}
