"""NQ-open (Lee et al., 2019): single-hop questions without passages, JSON Lines `{"question", "answer": [str]}`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import dspy

from knowgap.compile.data.dataset import PassagePool, make_example
from knowgap.compile.data.records import read_json_lines

__all__ = ["question_id", "read_nq_open"]


def question_id(question: str, seen: Counter[str]) -> str:
    """An id from the question's digest, for layouts that have none; repeated questions are numbered from 2 on."""
    digest = hashlib.sha256(question.encode()).hexdigest()[:16]
    seen[digest] += 1
    return digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def read_nq_open(path: Path, pool: PassagePool) -> Iterator[tuple[int, dspy.Example]]:
    """Line or record numbers and examples of a file; the pool gets nothing, since the layout has no passages."""
    seen: Counter[str] = Counter()
    for record in read_json_lines(path):
        question, answers = record.text("question"), record.texts("answer")
        if not any(answer.strip() for answer in answers):
            raise record.error("must hold at least one answer", "answer")
        yield (
            record.line,
            make_example(
                id=question_id(question, seen),
                question=question,
                answers=[answer for answer in answers if answer.strip()],
                type="single_hop",
            ),
        )
