"""A data set: questions in three splits, their corpus of passages, and a digest of both."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

import dspy

from knowgap.errors import DataError, UnknownName, UsageError
from knowgap.retrieval.passage import Passage
from knowgap.storage.files import json_digest

T = TypeVar("T")

SPLITS = ("train", "dev", "test")
FRACTIONS = {"train": 0.5, "dev": 0.25, "test": 0.25}
"""Fraction of the questions in each split, where one file holds all questions."""


@dataclass(frozen=True)
class Dataset:
    """Questions with their answers, and the corpus they are asked of.

    Args:
        name: "sample", the layout ("hotpotqa", …), or for users' own questions the name of their file or folder.
        splits: "train", "dev" and "test", disjoint, any of which may be empty. See `make_example` for the fields.
        corpus: the passages, each once, in stable order; empty where the data set has none.
        fingerprint: see `fingerprint`.

    >>> import knowgap
    >>> data = knowgap.load_dataset("sample", limit=3)
    >>> isinstance(data, knowgap.Dataset), len(data.questions("dev"))
    (True, 3)
    """

    name: str
    splits: Mapping[str, list[dspy.Example]]
    corpus: Sequence[Passage]
    fingerprint: str

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(examples)} {name}" for name, examples in self.splits.items())
        return f"Dataset({self.name}: {sizes} questions; {len(self.corpus)} passages)"

    def questions(self, split: str, limit: int | None = None) -> list[dspy.Example]:
        """The questions of one split, the first `limit` of them.

        Raises:
            UsageError: the split is empty, or `limit` is below 1.
        """
        if split not in SPLITS and split not in self.splits:
            raise UnknownName.among("split", split, SPLITS)
        if limit is not None and limit < 1:
            raise UsageError(f"limit {limit}: ask at least one question")
        if not self.splits.get(split):
            whole = f"take a file whole with `knowgap eval --whole` (split_as={split!r})"
            raise UsageError(f"{self!r} has no questions in its split {split!r}: add some, name another, or {whole}")
        return list(self.splits[split])[:limit]

    def index_name(self, engine: str) -> str:
        """The folder name of an index of the corpus: it changes with the data, the engine and the format of indexes."""
        from knowgap.retrieval.index.manifest import FORMAT_VERSION

        return f"{self.name}-{self.fingerprint[:12]}-{engine}-format{FORMAT_VERSION}"


def make_example(
    *,
    question: str,
    answers: Sequence[str],
    id: str = "",
    type: str,
    gold_ids: Iterable[str] = (),
    candidates: Iterable[str] = (),
    **more: Any,
) -> dspy.Example:
    """Make an example whose input is `question`, with every field that programs and metrics rely on.

    `answers` are all that are acceptable, at least one: the first becomes `answer`, all become `aliases`. `candidates`
    are the ids of the question's own passages, and `more` is what only one layout has; for the others, see
    `knowgap.compiling.data`. An empty id is filled in when a file has been read.
    """
    aliases = list(dict.fromkeys(answers))
    example = dspy.Example(id=id, question=question, answer=aliases[0], aliases=aliases, type=type, **more)
    example.gold_ids, example.candidates = list(dict.fromkeys(gold_ids)), list(dict.fromkeys(candidates))
    return example.with_inputs("question")


def add_passage(pool: dict[str, Passage], title: str, text: str, id: str | None = None) -> str:
    """Add a passage to a corpus by id, each (title, text) once, and return its id.

    Without one, the id is its title; further texts under the same title are numbered: `Title`, `Title#2`, … Without a
    title, the id is a digest of the text.

    Raises:
        DataError: another passage has the given id.
    """
    name = id or title or hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    for number in itertools.count(1):
        passage = Passage(name if number == 1 else f"{name}#{number}", title, text)
        if pool.setdefault(passage.id, passage) == passage:
            return passage.id
        if id:
            raise DataError(f"two different passages have the id {id!r}")
    raise AssertionError


def split(
    items: Sequence[T], parts: Mapping[str, float], seed: int = 0, key: Callable[[T], str] = attrgetter("question")
) -> dict[str, list[T]]:
    """Divide items into parts at random, each in the order of the items.

    Which part an item gets depends on the seed and on the set of keys, not on their order; items with equal keys, such
    as equal questions, stay together.

    Args:
        items: examples, or others that `key` makes a text of.
        parts: the size of each part by name: a share below 1 of all keys, or a whole number of them. What is left over
            is in no part.
        seed: the seed of the division.
        key: what is divided, by default the questions.

    >>> [len(part) for part in split(range(10), {"train": 0.5, "dev": 0.25, "test": 0.25}, key=str).values()]
    [5, 3, 2]
    >>> len(split(range(10), {"asked": 4}, key=str)["asked"])
    4
    """

    def rank(item: T) -> bytes:
        return hashlib.sha256(f"{seed}\n{key(item)}".encode("utf-8", "surrogatepass")).digest()

    ranked, taken, part_of = sorted({rank(item) for item in items}), 0.0, dict[bytes, str]()
    for name, size in parts.items():
        start, taken = round(taken), taken + (size * len(ranked) if size < 1 else size)
        part_of |= dict.fromkeys(ranked[start : round(taken)], name)
    found: dict[str, list[T]] = {name: [] for name in parts}
    for item in items:
        if (name := part_of.get(rank(item))) is not None:
            found[name].append(item)
    return found


def fingerprint(examples: Iterable[dspy.Example], corpus: Iterable[Passage]) -> str:
    """SHA-256 (hexadecimal) over ids, questions, answers and passages, independent of their order and split."""
    questions = ([e.id, e.question, e.aliases, sorted(e.gold_ids)] for e in examples)
    passages = ([p.id, p.title, p.text] for p in corpus)
    return json_digest([sorted(map(json_digest, records)) for records in (questions, passages)])
