"""TriviaQA (Joshi et al., 2017): one JSON object `{"Data": [...]}` in the official layout, read as a stream.

`{"QuestionId", "Question", "Answer": {"Value", "Aliases"}}`. The evidence documents, which are separate files, are not
read.
"""

from __future__ import annotations

from pathlib import Path

from knowgap.compiling.data.dataset import Examples, PassagePool, make_example
from knowgap.compiling.data.records import read_records


def read_triviaqa(path: Path, pool: PassagePool) -> Examples:
    """Yield record numbers and examples of a file, which has no passages for the pool."""
    for record in read_records(path, key="Data"):
        answer = record.object("Answer")
        example = make_example(
            id=record.identifier("QuestionId"),
            question=record.text("Question"),
            answers=[answer.text("Value"), *answer.texts("Aliases")],
            type="single_hop",
        )
        yield record.line, example
