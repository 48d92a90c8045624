"""One's own questions: JSON Lines (or a JSON array) with the fields that `knowgap.compile.data` documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy

from knowgap.compile.data.dataset import PassagePool, make_example
from knowgap.compile.data.layouts.nq_open import question_id
from knowgap.compile.data.records import Record, read_records
from knowgap.errors import DataError

__all__ = ["read_jsonl"]


def read_jsonl(path: Path, pool: PassagePool) -> Iterator[tuple[int, dspy.Example]]:
    """Line or record numbers and examples of a file; what their `context` holds goes into the pool."""
    seen: Counter[str] = Counter()
    for record in read_records(path):
        question = record.text("question")
        yield (
            record.line,
            make_example(
                id=record.identifier("id") if record.data.get("id") is not None else question_id(question, seen),
                question=question,
                answers=[*_answers(record), *record.texts("aliases")],
                type=record.get("type", str, "question"),
                gold_ids=record.texts("gold_ids"),
                candidates=[_pool(record, item, pool) for item in record.get("context", list, [])],
            ),
        )


def _answers(record: Record) -> list[str]:
    value = record.need("answer", (str, list, bool, int, float))
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    answers = [str(value)] if isinstance(value, (int, float)) else record.texts("answer")
    if not answers or not all(answer.strip() for answer in answers):
        raise record.error('must be a visible string or a list of such; write "unanswerable" for none', "answer")
    return answers


def _pool(record: Record, item: Any, pool: PassagePool) -> str:
    if isinstance(item, str):
        item = {"text": item}
    if not isinstance(item, dict) or not isinstance(item.get("text"), str):
        raise record.error('must hold strings or {"id", "title", "text"} objects', "context")
    given = item.get("id")
    try:
        return pool.add(str(item.get("title") or ""), item["text"], id=None if given is None else str(given))
    except DataError as error:
        raise record.error(error.problem, "context") from error
