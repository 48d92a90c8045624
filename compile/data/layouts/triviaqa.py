"""TriviaQA (Joshi et al., 2017): one JSON object `{"Data": [...]}` in the official layout, read as a stream.

`{"QuestionId", "Question", "Answer": {"Value", "Aliases"}}`; the evidence documents are files of their own, which are
not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dspy

from knowgap.compile.data.dataset import PassagePool, make_example
from knowgap.compile.data.records import Record, read_json_array

__all__ = ["read_triviaqa"]


def read_triviaqa(path: Path, pool: PassagePool) -> Iterator[tuple[int, dspy.Example]]:
    """Record numbers and examples of a file; the pool gets nothing."""
    for record in read_json_array(path, key="Data"):
        answer = Record(record.need("Answer", dict), path, record.line)
        yield (
            record.line,
            make_example(
                id=record.identifier("QuestionId"),
                question=record.text("Question"),
                answers=[answer.text("Value"), *answer.texts("Aliases")],
                type="single_hop",
            ),
        )
