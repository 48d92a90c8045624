"""The embedded reader on development sets, on which nothing was trained: F1 of short answers to given passages.

The reader as a whole answers the prompt of plain retrieval; the span head (the trained model of answer spans) alone
gives its best span. QED (Natural Questions) and XQuAD (English) have one paragraph per question; HotpotQA and
2WikiMultihopQA have their gold paragraphs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dspy
import numpy as np
from bundled_models.reading_examples import paragraphs_of, squad_examples
from real_data import real_file
from table import Table, note, seconds

from knowgap.compiling.evaluation.metrics.answers import token_f1
from knowgap.compiling.evaluation.statistics import mean_interval
from knowgap.lms import make_lm
from knowgap.lms.embedded.span_head import span_head
from knowgap.signatures import STYLES, AnswerFromPassages, SourcePassage


class Asked(NamedTuple):
    """A question, the (title, text) of the passages that answer it, and its answers."""

    question: str
    passages: list[tuple[str, str]]
    answers: list[str]


def add_arguments(group: Any) -> None:
    """Add the option of this benchmark."""
    group.add_argument("--embedded-questions", type=int, help="questions of each data set (150; quick 20)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Yield the table of both readers on each data set."""
    count = options.embedded_questions or (20 if options.quick else 150)
    rows = []
    for name, (pattern, read) in _SETS.items():
        if (path := real_file(options, name, f"**/{pattern}")) is None:
            continue
        asked = list(read(path))[:count]
        for reader, answer in {"embedded reader": _whole, "span head alone": _head}.items():
            note(f"reading: {reader} on {len(asked)} questions of {name}")
            started = time.perf_counter()
            replies = [answer(each.question, each.passages) for each in asked]
            spent = (time.perf_counter() - started) / max(len(asked), 1)
            f1 = [max(token_f1(reply, a) for a in each.answers) for reply, each in zip(replies, asked, strict=True)]
            right = f"{np.mean(np.equal(f1, 1)):.3f}"
            rows.append([name, len(asked), reader, right, mean_interval(f1), seconds(spent)])
    columns = ["data", "questions", "reader", "F1 = 1", "F1 [95%]", "time of a question"]
    yield Table("Reading given passages", columns, rows, ["Intervals are bootstrapped over questions."])


def _qed(path: Path) -> Iterator[Asked]:
    for record in map(json.loads, path.read_text("utf-8").splitlines()):
        answers = [part["string"] for answer in record["original_nq_answers"] for part in answer]
        yield Asked(record["question_text"], [(record["title_text"], record["paragraph_text"])], answers)


def _xquad(path: Path) -> Iterator[Asked]:
    for e in squad_examples(path):
        yield Asked(e.question, [(e.title, e.text)], [e.text[slice(*place)] for place in e.answers])


def _multi_hop(path: Path) -> Iterator[Asked]:
    for record in json.loads(path.read_text("utf-8")):
        paragraphs, gold = paragraphs_of(record)
        yield Asked(record["question"], [each for each in paragraphs.items() if each[0] in gold], [record["answer"]])


_SETS: dict[str, tuple[str, Callable[[Path], Iterator[Asked]]]] = {
    "QED": ("qed_dev.jsonl", _qed),
    "XQuAD": ("xquad_en.json", _xquad),
    "HotpotQA": ("hotpot_dev_*.json", _multi_hop),
    "2WikiMultihopQA": ("2wiki_dev_*.json", _multi_hop),
}
"""By name, the pattern of its file, and what reads it."""


def _head(question: str, passages: list[tuple[str, str]]) -> str:
    found = [c for candidates in span_head().candidates(question, passages) for c in candidates]
    return max(found, key=lambda c: c.margin).text if found else ""


def _whole(question: str, passages: list[tuple[str, str]]) -> str:
    numbered = [SourcePassage(id=i, title=title, text=text) for i, (title, text) in enumerate(passages, start=1)]
    with dspy.context(lm=make_lm("extractive", cache=False)):
        return dspy.Predict(AnswerFromPassages)(question=question, passages=numbered, style=STYLES["short"]).answer
