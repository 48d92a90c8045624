"""The embedded reader on development sets, on which nothing was trained: F1 of short answers to given passages.

The reader answers the prompt of plain retrieval. XQuAD (English) has one paragraph per question; HotpotQA and
2WikiMultihopQA have their gold paragraphs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import numpy as np
from bundled_models.reading_examples import paragraphs_of, squad_examples
from table import FILES, Table, note, real_file, seconds

from knowgap.compiling.data.records import read_records
from knowgap.compiling.evaluation.metrics.answers import token_f1
from knowgap.compiling.evaluation.statistics import mean_interval
from knowgap.lms import make_lm
from knowgap.signatures import STYLES, AnswerFromPassages, SourcePassage

Asked = tuple[str, dict[str, str], list[str]]
"""A question, the texts of the passages that answer it by their titles, and its answers."""


def add_arguments(group: Any) -> None:
    """Add the option of this benchmark."""
    group.add_argument("--embedded-questions", type=int, help="questions of each data set (150; quick 20)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Yield the table of what is read on each data set."""
    count, rows = options.embedded_questions or (20 if options.quick else 150), []
    files = {"XQuAD": "**/xquad_en.json", **{name: FILES[name] for name in ("HotpotQA", "2WikiMultihopQA")}}
    for name, pattern in files.items():
        if (path := real_file(options, pattern)) is None:
            continue
        asked = list(_xquad(path) if name == "XQuAD" else _multi_hop(path))[:count]
        note(f"embedded: {len(asked)} questions of {name}")
        started = time.perf_counter()
        replies = [_answer(question, passages) for question, passages, _ in asked]
        spent = (time.perf_counter() - started) / len(asked)
        f1 = [max(token_f1(reply, a) for a in answers) for reply, (*_, answers) in zip(replies, asked, strict=True)]
        rows.append([name, len(asked), f"{np.mean(np.equal(f1, 1)):.3f}", mean_interval(f1), seconds(spent)])
    columns = ["data", "questions", "F1 = 1", "F1 [95%]", "time of a question"]
    yield Table("Reading given passages", columns, rows, ["Intervals are bootstrapped over questions."])


def _xquad(path: Path) -> Iterator[Asked]:
    for e in squad_examples(path):
        yield e.question, {e.title: e.text}, [e.text[slice(*place)] for place in e.answers]


def _multi_hop(path: Path) -> Iterator[Asked]:
    for record in read_records(path):
        paragraphs, gold = paragraphs_of(record.data)
        passages = {title: text for title, text in paragraphs.items() if title in gold}
        yield record.data["question"], passages, [record.data["answer"]]


def _answer(question: str, passages: dict[str, str]) -> str:
    numbered = [SourcePassage(id=i, title=title, text=text) for i, (title, text) in enumerate(passages.items(), 1)]
    with dspy.context(lm=make_lm("extractive", cache=False)):
        return dspy.Predict(AnswerFromPassages)(question=question, passages=numbered, style=STYLES["short"]).answer
