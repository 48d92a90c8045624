"""The fictional encyclopedia: passages and questions that no language model can have read.

People, films, novels, companies, cities, rivers, countries, bands, albums and universities with invented names, in
articles of several sentences that word each relation in several ways, among namesakes and articles that no question
needs. A right answer therefore comes from retrieval and reading, not from memory.

The encyclopedia is an endless series of worlds (`fictional.world`) of some 330 passages that share no entity. Each
world is the same to the byte on every machine and version of Python.

The sample that comes with knowgap is the first three worlds, one each for train, dev and test. Rewrite its files, or
write a larger data set of the same kind, with

    python benchmarks/write_sample.py
    python benchmarks/write_sample.py FOLDER --passages 20000
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import dspy

from fictional.articles import write_articles
from fictional.questions import ask_questions
from fictional.world import build_world
from knowgap.compiling.data.dataset import SPLITS
from knowgap.retrieval.passage import Passage

__all__ = ["stream_passages", "stream_questions", "write_dataset"]

_QUESTIONS_PER_WORLD = 100


def stream_passages(n: int) -> Iterator[Passage]:
    """Write the first `n` passages, one world in memory at a time; all ids differ."""
    return islice((passage for number in count() for passage in write_articles(build_world(number))), n)


def stream_questions(n: int) -> Iterator[dspy.Example]:
    """Ask the first `n` questions, 100 about each world."""
    return islice((example for number in count() for example in _ask(number)), n)


def write_dataset(folder: Path, passages: int) -> None:
    """Write `corpus.jsonl`, `train.jsonl`, `dev.jsonl` and `test.jsonl`, which `knowgap.load_dataset(folder)` reads.

    Args:
        folder: made where it does not exist; files of these names in it are replaced.
        passages: write whole worlds until the corpus has at least this many, and at least three worlds. The worlds go
            to train, dev and test in turn, so that the splits share no entity.
    """
    corpus: list[Passage] = []
    splits: dict[str, list[dspy.Example]] = {split: [] for split in SPLITS}
    for number in count():
        if len(corpus) >= passages and number >= len(SPLITS):
            break
        corpus += write_articles(build_world(number))
        splits[SPLITS[number % len(SPLITS)]] += _ask(number)
    folder.mkdir(parents=True, exist_ok=True)
    _write_lines(folder / "corpus.jsonl", (passage.to_dict() for passage in corpus))
    for split, examples in splits.items():
        _write_lines(folder / f"{split}.jsonl", map(_record, examples))


def _ask(number: int) -> list[dspy.Example]:
    return ask_questions(build_world(number), _QUESTIONS_PER_WORLD)


def _record(example: dspy.Example) -> dict[str, Any]:
    """A question in the layout of users' own JSON Lines."""
    fields = ("id", "question", "answer", "type", "gold_ids", "evidences", "decomposition")
    return {field: example.aliases if field == "answer" else example[field] for field in fields}


def _write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
