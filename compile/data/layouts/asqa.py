"""ASQA (Stelmakh et al., 2022) as ALCE (Gao et al., 2023) recompiled it: a JSON array of ambiguous questions.

`{"sample_id", "question", "answer" (long), "qa_pairs": [{"question", "short_answers"}], "docs": [{"id", "title",
"text"}]}`. The short answers, one list for each reading of the question, stand in the example's `short_answers`, which
str-em and str-hit read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dspy

from knowgap.compile.data.dataset import PassagePool, make_example
from knowgap.compile.data.records import Record, read_json_array
from knowgap.errors import DataError

__all__ = ["read_asqa"]


def read_asqa(path: Path, pool: PassagePool) -> Iterator[tuple[int, dspy.Example]]:
    """Record numbers and examples of a file; their documents go into the pool."""
    for record in read_json_array(path):
        pairs = [_object(record, pair, "qa_pairs") for pair in record.need("qa_pairs", list)]
        short_answers = [pair.texts("short_answers") for pair in pairs]
        if not short_answers or not all(short_answers):
            raise record.error("must hold at least one pair, each with short_answers", "qa_pairs")
        readings = [
            {"question": str(pair.get("question", str, "")), "answer": short[0]}
            for pair, short in zip(pairs, short_answers, strict=True)
        ]
        yield (
            record.line,
            make_example(
                id=record.identifier("sample_id"),
                question=record.text("question"),
                answers=[record.text("answer")],
                type="long_form",
                candidates=[_pool(record, doc, pool) for doc in record.get("docs", list, [])],
                decomposition=readings,
                short_answers=short_answers,
            ),
        )


def _pool(record: Record, doc: object, pool: PassagePool) -> str:
    item = _object(record, doc, "docs")
    id = item.identifier("id") if item.data.get("id") is not None else None
    try:
        return pool.add(item.text("title"), item.text("text"), id=id)
    except DataError as error:
        raise record.error(error.problem, "docs") from error


def _object(record: Record, value: object, field: str) -> Record:
    if not isinstance(value, dict):
        raise record.error("must hold JSON objects", field)
    return Record(value, record.path, record.line)
