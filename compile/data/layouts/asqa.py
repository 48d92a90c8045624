"""ASQA (Stelmakh et al., 2022) as ALCE (Gao et al., 2023) recompiled it: a JSON array of ambiguous questions.

`{"sample_id", "question", "answer" (long), "qa_pairs": [{"question", "short_answers"}], "docs": [{"id", "title",
"text"}]}`. The example's `short_answers` has one list for each reading of the question; str-em and str-hit use it.
"""

from __future__ import annotations

from pathlib import Path

from knowgap.compiling.data.dataset import Examples, PassagePool, make_example
from knowgap.compiling.data.records import Record, read_records


def read_asqa(path: Path, pool: PassagePool) -> Examples:
    """Yield record numbers and examples of a file; their documents go into the pool."""
    for record in read_records(path):
        pairs = record.objects("qa_pairs")
        short_answers = [pair.texts("short_answers") for pair in pairs]
        if not short_answers or not all(short_answers):
            raise record.error("must hold at least one pair, each with short_answers", "qa_pairs")
        readings = [
            {"question": pair.get("question", str, ""), "answer": short[0]}
            for pair, short in zip(pairs, short_answers, strict=True)
        ]
        example = make_example(
            id=record.identifier("sample_id"),
            question=record.text("question"),
            answers=[record.text("answer")],
            type="long_form",
            candidates=[_pool_document(record, doc, pool) for doc in record.objects("docs", optional=True)],
            decomposition=readings,
            short_answers=short_answers,
        )
        yield record.line, example


def _pool_document(record: Record, doc: Record, pool: PassagePool) -> str:
    id = doc.identifier("id") if doc.data.get("id") is not None else None
    return pool.add(doc.text("title"), doc.text("text"), id, source=(record, "docs"))
