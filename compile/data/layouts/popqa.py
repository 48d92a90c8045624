"""PopQA (Mallen et al., 2023): questions on long-tail entities, tab-separated in the official layout.

Columns `id`, `question`, `prop` and `possible_answers` (a JSON list) are read, and `s_pop`, the monthly page views of
the subject, as `popularity`. There are no passages.
"""

from __future__ import annotations

import json
from pathlib import Path

from knowgap.compiling.data.dataset import Examples, PassagePool, make_example
from knowgap.compiling.data.records import Record, read_records


def read_popqa(path: Path, pool: PassagePool) -> Examples:
    """Yield line numbers and examples of a file, which has no passages for the pool."""
    for record in read_records(path):
        example = make_example(
            id=record.identifier("id"),
            question=record.text("question"),
            answers=_answers(record),
            type=record.get("prop", str, "single_hop"),
            popularity=_popularity(record),
        )
        yield record.line, example


def _answers(record: Record) -> list[str]:
    try:
        answers = json.loads(record.text("possible_answers"))
    except json.JSONDecodeError as error:
        raise record.error(f"is not JSON: {error.msg}", "possible_answers") from error
    if not isinstance(answers, list) or not answers or not all(isinstance(answer, str) for answer in answers):
        raise record.error("must be a JSON list of strings", "possible_answers")
    return answers


def _popularity(record: Record) -> int:
    value = record.get("s_pop", str, "0")
    if not value.isdecimal():
        raise record.error(f"must be a whole number, is {value!r}", "s_pop")
    return int(value)
