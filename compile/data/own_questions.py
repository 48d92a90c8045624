"""Users' own questions: JSON Lines (or a JSON array) with the fields that `knowgap.compile.data` documents."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from knowgap.compile.data.dataset import Examples, PassagePool, make_example, question_id
from knowgap.compile.data.records import Record, read_records

__all__ = ["read_own_questions"]


def read_own_questions(path: Path, pool: PassagePool) -> Examples:
    """Yield line or record numbers and examples of a file; the passages in `context` go into the pool."""
    seen: Counter[str] = Counter()
    for record in read_records(path):
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
        )
        yield record.line, example


def _history(record: Record) -> dict[str, Any]:
    turns = [
        {"role": turn.text("role"), "content": turn.text("content")}
        for turn in record.objects("history", optional=True)
    ]
    return {"history": turns} if turns else {}


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
