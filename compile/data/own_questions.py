"""Users' own questions with the fields that `knowgap.compiling.data` documents: JSON Lines, or what a loader yields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dspy

from knowgap.compiling.data.dataset import SPLITS, Examples, PassagePool, make_example, question_id
from knowgap.compiling.data.records import Record, read_records
from knowgap.errors import DataError


def read_own_questions(path: Path, pool: PassagePool) -> Examples:
    """Yield line or record numbers and examples of a file; the passages in `context` go into the pool."""
    return _read_examples(read_records(path), pool)


def read_by_loader(loader: Callable[[str], Iterable[Any]], name: str, path: str, pool: PassagePool) -> Examples:
    """Yield record numbers and examples of what a function from outside yields; `split` stays in an example.

    Args:
        loader: takes the path and yields a mapping for each question.
        name: of the loader, for errors.
        path: is handed on as it is.
        pool: gets the passages in `context`.
    """

    def records() -> Iterator[Record]:
        for number, item in enumerate(loader(path), start=1):
            fields = item.toDict() if isinstance(item, dspy.Example) else item
            if not isinstance(fields, Mapping):
                problem = f"{name} must yield a dictionary for each question, and yielded {type(item).__name__}"
                raise DataError(problem, path=path, line=number)
            yield Record(dict(fields), Path(path), number)

    return _read_examples(records(), pool, divided=True)


def _read_examples(records: Iterable[Record], pool: PassagePool, *, divided: bool = False) -> Examples:
    """Yield the place and the example of each record; `divided` keeps the split that a record names."""
    seen: Counter[str] = Counter()
    for record in records:
        question = record.text("question")
        example = make_example(
            id=record.identifier("id") if record.data.get("id") is not None else question_id(question, seen),
            question=question,
            answers=[*_read_answers(record), *record.texts("aliases")],
            type=record.get("type", str, "question"),
            gold_ids=record.texts("gold_ids"),
            candidates=[_pool_passage(record, item, pool) for item in record.get("context", list, [])],
            evidences=record.triples("evidences", optional=True),
            decomposition=[
                {"question": step.text("question"), "answer": step.get("answer", str, "")}
                for step in record.objects("decomposition", optional=True)
            ],
            **_history(record),
            **(_split(record) if divided else {}),
        )
        yield record.line, example


def _history(record: Record) -> dict[str, Any]:
    turns = [
        {"role": turn.text("role"), "content": turn.text("content")}
        for turn in record.objects("history", optional=True)
    ]
    return {"history": turns} if turns else {}


def _split(record: Record) -> dict[str, str]:
    split = record.get("split", str)
    if split is not None and split not in SPLITS:
        raise record.error(f"must be {', '.join(SPLITS[:-1])} or {SPLITS[-1]}, is {split!r}", "split")
    return {} if split is None else {"split": split}


def _read_answers(record: Record) -> list[str]:
    value = record.need("answer", (str, list, bool, int, float))
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    answers = [str(value)] if isinstance(value, (int, float)) else record.texts("answer")
    if not answers or not all(answer.strip() for answer in answers):
        raise record.error('must be a visible string or a list of such; write "unanswerable" for none', "answer")
    return answers


def _pool_passage(record: Record, item: Any, pool: PassagePool) -> str:
    passage = {"text": item} if isinstance(item, str) else item
    if not isinstance(passage, dict) or not isinstance(passage.get("text"), str):
        raise record.error('must hold strings or {"id", "title", "text"} objects', "context")
    id, title = passage.get("id"), str(passage.get("title") or "")
    return pool.add(title, passage["text"], None if id is None else str(id), source=(record, "context"))
