"""MuSiQue (Trivedi et al., 2022), MuSiQue-Ans and MuSiQue-Full: JSON Lines in the official layout.

`{"id", "question", "answer", "answer_aliases", "answerable", "paragraphs": [{"idx", "title", "paragraph_text",
"is_supporting"}], "question_decomposition": [{"question", "answer"}]}`

MuSiQue-Full asks each question twice under one id, once without a supporting paragraph. That one gets the suffix
`-unanswerable` to its id, and "unanswerable" as type and answer.
"""

from __future__ import annotations

import re
from pathlib import Path

from knowgap.compiling.data.dataset import Examples, PassagePool, make_example
from knowgap.compiling.data.records import Record, read_records


def read_musique(path: Path, pool: PassagePool) -> Examples:
    """Yield line numbers and examples of a file; their paragraphs go into the pool."""
    for record in read_records(path):
        id, answerable = record.identifier("id"), record.get("answerable", bool, True)
        answers = [record.text("answer"), *record.texts("answer_aliases")] if answerable else ["unanswerable"]
        candidates, gold = _pool(record, pool)
        example = make_example(
            id=id if answerable else f"{id}-unanswerable",
            question=record.text("question"),
            answers=answers,
            type=id.partition("__")[0] if answerable else "unanswerable",
            gold_ids=gold,
            candidates=candidates,
            decomposition=_steps(record),
        )
        yield record.line, example


def _pool(record: Record, pool: PassagePool) -> tuple[list[str], list[str]]:
    candidates, gold = [], []
    for paragraph in record.objects("paragraphs"):
        candidates.append(pool.add(paragraph.text("title"), paragraph.text("paragraph_text")))
        if paragraph.get("is_supporting", bool, False):
            gold.append(candidates[-1])
    return candidates, gold


def _steps(record: Record) -> list[dict[str, str]]:
    """Sub-questions and answers, with `#1` in a sub-question replaced by the first answer, and so on."""
    steps: list[dict[str, str]] = []
    for step in record.objects("question_decomposition", optional=True):
        question, answer = step.text("question"), step.get("answer", str, "")
        for number, earlier in enumerate(steps, start=1):
            question = re.sub(rf"#{number}\b", lambda _, earlier=earlier: earlier["answer"], question)
        steps.append({"question": question, "answer": answer})
    return steps
