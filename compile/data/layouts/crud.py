"""The question-answering tasks of CRUD-RAG (Lyu et al., 2024), in Chinese: the official `split_merged.json`.

One JSON object whose keys `questanswer_1doc`, `questanswer_2docs` and `questanswer_3docs` hold records `{"ID",
"questions", "answers", "news1", …}`; the other tasks in the file are passed over. The news become the corpus. Where the
release's `QuestAnswer1Doc_quest_gt_save.json` and its like lie beside the file, their questions and reference answers
stand in the examples' `quest_questions` and `quest_answers`, which RAGQuestEval reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy

from knowgap.compile.data.dataset import PassagePool, make_example
from knowgap.compile.data.records import Record, read_json_object
from knowgap.errors import DataError

__all__ = ["TASKS", "read_crud"]

TASKS = {"questanswer_1doc": "1Doc", "questanswer_2docs": "2Docs", "questanswer_3docs": "3Docs"}
"""Keys of the file, and how the names of the saved questions call them."""


def read_crud(path: Path, pool: PassagePool) -> Iterator[tuple[int, dspy.Example]]:
    """Record numbers (over the three tasks) and examples of a file; their news go into the pool."""
    tasks = read_json_object(path)
    number = 0
    for task, saved in TASKS.items():
        quest = _read_quest(path.with_name(f"QuestAnswer{saved}_quest_gt_save.json"))
        records = tasks.get(task, [])
        if not isinstance(records, list):
            raise DataError("must be a list", path=path, field=task)
        for data in records:
            number += 1
            if not isinstance(data, dict):
                raise DataError("must be a JSON object", path=path, line=number, field=task)
            record = Record(data, path, number)
            id = record.identifier("ID")
            news = [record.text(field) for field in sorted(data) if re.fullmatch(r"news\d+", field)]
            gold = [pool.add("", text) for text in news]
            questions, answers = quest.get(id, ([], []))
            yield (
                number,
                make_example(
                    id=f"{saved}-{id}",
                    question=_joined(record, "questions"),
                    answers=[_joined(record, "answers")],
                    type=saved.lower(),
                    gold_ids=gold,
                    quest_questions=questions,
                    quest_answers=answers,
                ),
            )
    if number == 0:
        raise DataError(f"holds none of the tasks {', '.join(TASKS)}", path=path)


def _joined(record: Record, field: str) -> str:
    text = "\n".join(record.texts(field)).strip()
    if not text:
        raise record.error("is missing or blank", field)
    return text


def _read_quest(path: Path) -> dict[str, tuple[list[str], list[str]]]:
    if not path.exists():
        return {}
    saved: dict[str, tuple[list[str], list[str]]] = {}
    for number, (id, data) in enumerate(read_json_object(path).items(), start=1):
        record = Record(_checked(data, path, number), path, number)
        questions, answers = record.texts("question"), record.texts("answers")
        # Some saved questions have no answers: the release's own evaluation cannot use them either.
        saved[id] = (questions, answers) if len(questions) == len(answers) else ([], [])
    return saved


def _checked(data: Any, path: Path, number: int) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise DataError("must be a JSON object", path=path, line=number)
    return data
