"""What a data set is: questions in three splits, the passages they are asked of, and a digest of it all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from knowgap.errors import DataError, UnknownName, UsageError
from knowgap.retrieval.passage import Passage

__all__ = [
    "FRACTIONS",
    "SPLITS",
    "Dataset",
    "PassagePool",
    "fingerprint",
    "make_example",
    "sample_split",
    "split_examples",
]

SPLITS = ("train", "dev", "test")
FRACTIONS = {"train": 0.5, "dev": 0.25, "test": 0.25}
"""Shares of the splits where one file holds all questions."""


@dataclass(frozen=True)
class Dataset:
    """Questions with their answers, and the corpus they are asked of.

    Args:
        name: "sample", "hotpotqa", … or the file's stem.
        splits: "train", "dev" and "test"; disjoint; a split may be empty. See `make_example` for the fields.
        corpus: pooled passages, each once, in stable order; empty where the data set brings none.
        fingerprint: SHA-256 over questions, answers and corpus: same content, same digest, whatever the path.
    """

    name: str
    splits: Mapping[str, list[dspy.Example]]
    corpus: Sequence[Passage]
    fingerprint: str

    def questions(self, split: str, limit: int | None = None) -> list[dspy.Example]:
        """The questions of one split, the first `limit` of them.

        Raises:
            UsageError: the split is empty, or `limit` is below 1.
        """
        if split not in SPLITS:
            raise UnknownName.among("split", split, SPLITS)
        if limit is not None and limit < 1:
            raise UsageError(f"limit {limit}: ask at least one question")
        if not self.splits.get(split):
            sizes = ", ".join(f"{name} {len(part)}" for name, part in self.splits.items())
            raise UsageError(f"{self.name} has no questions in its split {split!r} (it has {sizes})")
        return list(self.splits[split])[:limit]

    def index_name(self, engine: str) -> str:
        """The folder name of an index of the corpus: it changes with the data and the engine."""
        return f"{self.name.replace(':', '-')}-{self.fingerprint[:12]}-{engine}"


def make_example(
    *,
    id: str,
    question: str,
    answers: Sequence[str],
    type: str,
    gold_ids: Iterable[str] = (),
    candidates: Iterable[str] = (),
    evidences: Sequence[Sequence[str]] = (),
    decomposition: Sequence[Mapping[str, str]] = (),
    **more: Any,
) -> dspy.Example:
    """An example whose input is `question`, with every field that programs and metrics may count on.

    Args:
        id: unique within the data set.
        question: what is asked.
        answers: all acceptable answers, at least one; the first becomes `answer`, all become `aliases`.
        type: kind of question.
        gold_ids: ids of the passages that hold the answer's evidence.
        candidates: ids of the question's own paragraphs, where the layout has them.
        evidences: (subject, relation, object) triples.
        decomposition: `{"question", "answer"}` pairs in order.
        **more: further fields of the data set's own.
    """
    aliases = list(dict.fromkeys(answers))
    return dspy.Example(
        id=id,
        question=question,
        answer=aliases[0],
        aliases=aliases,
        gold_ids=list(dict.fromkeys(gold_ids)),
        type=type,
        candidates=list(dict.fromkeys(candidates)),
        evidences=[list(triple) for triple in evidences],
        decomposition=[dict(step) for step in decomposition],
        **more,
    ).with_inputs("question")


class PassagePool:
    """Passages of many questions pooled into one corpus, each (title, text) once.

    An id is the title; a title with several texts numbers them from the second on: `Title`, `Title#2`, … Without a
    title, the id is a digest of the text.
    """

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], str] = {}
        self._passages: dict[str, Passage] = {}

    def add(self, title: str, text: str, id: str | None = None) -> str:
        """Pool one passage and return its id, which is made from the title where none is given.

        Raises:
            DataError: the given id is taken by another passage.
        """
        if id is None:
            if (title, text) in self._ids:
                return self._ids[title, text]
            name = title or hashlib.sha256(text.encode()).hexdigest()[:16]
            id, number = name, 2
            while id in self._passages:
                id, number = f"{name}#{number}", number + 1
            self._ids[title, text] = id
        passage = Passage(id=id, title=title, text=text)
        if self._passages.setdefault(id, passage) != passage:
            raise DataError(f"the id {id!r} names two different passages")
        return id

    @property
    def passages(self) -> list[Passage]:
        """The pooled passages in the order in which they came."""
        return list(self._passages.values())


def _rank(example: dspy.Example, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\n{example.question}".encode()).digest()


def split_examples(examples: Sequence[dspy.Example], seed: int = 0) -> dict[str, list[dspy.Example]]:
    """Divide examples into train, dev and test by `FRACTIONS`.

    Membership depends on the seed and the questions alone, not on their order in the file; equal questions stay
    together. Within a split the file's order is kept.
    """
    ranked = sorted(dict.fromkeys(_rank(example, seed) for example in examples))
    train = round(FRACTIONS["train"] * len(ranked))
    dev = train + round(FRACTIONS["dev"] * len(ranked))
    place = {rank: "train" if n < train else "dev" if n < dev else "test" for n, rank in enumerate(ranked)}
    splits: dict[str, list[dspy.Example]] = {split: [] for split in SPLITS}
    for example in examples:
        splits[place[_rank(example, seed)]].append(example)
    return splits


def sample_split(examples: list[dspy.Example], sampling: str, seed: int = 0) -> list[dspy.Example]:
    """The papers' ways of taking fewer questions: `first-N` in file order, or `random-N` without replacement.

    `random-N` depends on the seed and the questions, not on their order in the file, and keeps the file's order.
    Where there are fewer than N questions, all are taken.

    Raises:
        UsageError: the sampling is neither.
    """
    kind, _, size = sampling.partition("-")
    if kind not in ("first", "random") or not size.isdecimal() or int(size) < 1:
        raise UsageError(f"sampling {sampling!r}: must be first-N or random-N, such as first-500 or random-200")
    if kind == "first":
        return examples[: int(size)]
    chosen = sorted(range(len(examples)), key=lambda n: _rank(examples[n], seed))[: int(size)]
    return [examples[n] for n in sorted(chosen)]


def fingerprint(examples: Iterable[dspy.Example], corpus: Iterable[Passage]) -> str:
    """SHA-256 (hexadecimal) over ids, questions, answers and passages, independent of their order and split."""
    total = hashlib.sha256()
    questions = ([e.id, e.question, e.aliases, sorted(e.gold_ids)] for e in examples)
    passages = ([p.id, p.title, p.text] for p in corpus)
    for kind, records in (("questions", questions), ("passages", passages)):
        digests = sorted(hashlib.sha256(json.dumps(r, ensure_ascii=False).encode()).digest() for r in records)
        total.update(f"{kind} {len(digests)}\n".encode())
        for digest in digests:
            total.update(digest)
    return total.hexdigest()
