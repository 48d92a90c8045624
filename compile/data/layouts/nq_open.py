"""NQ-open (Lee et al., 2019): single-hop questions without passages, JSON Lines `{"question", "answer": [str]}`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from knowgap.compiling.data.dataset import Examples, PassagePool, make_example, question_id
from knowgap.compiling.data.records import read_records


def read_nq_open(path: Path, pool: PassagePool) -> Examples:
    """Yield line numbers and examples of a file, which has no passages for the pool."""
    seen: Counter[str] = Counter()
    for record in read_records(path):
        question, answers = record.text("question"), record.texts("answer")
        if not any(answer.strip() for answer in answers):
            raise record.error("must hold at least one answer", "answer")
        example = make_example(
            id=question_id(question, seen),
            question=question,
            answers=[answer for answer in answers if answer.strip()],
            type="single_hop",
        )
        yield record.line, example
