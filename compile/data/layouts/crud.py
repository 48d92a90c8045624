"""The question-answering tasks of CRUD-RAG (Lyu et al., 2024), in Chinese: the official `split_merged.json`.

One JSON object whose keys `questanswer_1doc`, `questanswer_2docs` and `questanswer_3docs` hold records `{"ID",
"questions", "answers", "news1", …}`; other tasks in the file are skipped. The news become the corpus. With the
release's `QuestAnswer1Doc_quest_gt_save.json` (and for 2 and 3) beside the file, their questions and reference answers
become the examples' `quest_questions` and `quest_answers`, which RAGQuestEval uses.
"""

from __future__ import annotations

import re
from pathlib import Path

from knowgap.compiling.data.dataset import Examples, PassagePool, make_example
from knowgap.compiling.data.records import Record, read_json_object
from knowgap.errors import DataError

TASKS = {"questanswer_1doc": "1Doc", "questanswer_2docs": "2Docs", "questanswer_3docs": "3Docs"}
"""Keys of the file, and the part of the names of the saved questions' files for each."""


def read_crud(path: Path, pool: PassagePool) -> Examples:
    """Yield record numbers (over the three tasks) and examples of a file; their news go into the pool."""
    tasks, number = Record(read_json_object(path), path, 1), 0
    for task, saved in TASKS.items():
        quest = _read_quest(path.with_name(f"QuestAnswer{saved}_quest_gt_save.json"))
        for item in tasks.objects(task, optional=True):
            number += 1
            record = Record(item.data, path, number)
            id = record.identifier("ID")
            news = [record.text(field) for field in sorted(record.data) if re.fullmatch(r"news\d+", field)]
            questions, answers = quest.get(id, ([], []))
            example = make_example(
                id=f"{saved}-{id}",
                question=_joined(record, "questions"),
                answers=[_joined(record, "answers")],
                type=saved.lower(),
                gold_ids=[pool.add("", text) for text in news],
                quest_questions=questions,
                quest_answers=answers,
            )
            yield number, example
    if number == 0:
        raise DataError(f"holds none of the tasks {', '.join(TASKS)}", path=path)


def _joined(record: Record, field: str) -> str:
    text = "\n".join(record.texts(field)).strip()
    if not text:
        raise record.error("is missing or blank", field)
    return text


def _read_quest(path: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Saved questions and reference answers by record id; none where the file does not exist."""
    if not path.exists():
        return {}
    saved: dict[str, tuple[list[str], list[str]]] = {}
    entries = Record(read_json_object(path), path, 1)
    for id in entries.data:
        entry = entries.object(id)
        questions, answers = entry.texts("question"), entry.texts("answers")
        # Some saved questions have no answers; the release's own evaluation cannot use them either.
        saved[id] = (questions, answers) if len(questions) == len(answers) else ([], [])
    return saved
