"""The embedded reader on questions whose passages are given: F1 of its short answers.

The reader as a whole answers the prompt of plain retrieval; the span head alone gives its best span. QED (Natural
Questions) and XQuAD (English) have one paragraph a question; HotpotQA and 2WikiMultihopQA have the gold paragraphs of
the dev questions, yes/no questions included. Nothing was trained on these questions.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dspy
import numpy as np
from table import Table, data_folder, note

from knowgap.compiling.evaluation.metrics.answers import token_f1
from knowgap.lms import extractive_lm
from knowgap.lms.embedded.span_head import span_head
from knowgap.signatures import STYLES, AnswerFromPassages, SourcePassage

Asked = tuple[str, list[tuple[str, str]], list[str]]
"""A question, the (title, text) of its passages, and its answers."""


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--reading-questions", type=int, help="questions of each data set (all; quick 50)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Score the reader and the span head on each data set."""
    limit = options.reading_questions or (50 if options.quick else None)
    folder = data_folder(options)
    rows = []
    for name, (pattern, load) in _SETS.items():
        file = next(iter(sorted(folder.rglob(pattern))), None) if folder else None
        if file is None:
            note(f"reading: {name} is left out: its file is not in the folder of --data or KNOWGAP_TEST_DATA")
            continue
        asked = list(load(file))[:limit]
        for reader, read in _readers().items():
            note(f"reading: {reader} on {len(asked)} questions of {name}")
            rows.append([name, str(len(asked)), reader, *_score(asked, read)])
    columns = ["data", "questions", "reader", "F1 = 1", "F1 [95%]", "ms a question"]
    yield Table("Reading given passages", columns, rows, ["Intervals are bootstrapped over questions."])


def _readers() -> dict[str, Callable[[str, list[tuple[str, str]]], str]]:
    return {"embedded reader": _whole, "span head alone": _head}


def _head(question: str, passages: list[tuple[str, str]]) -> str:
    found = [c for candidates in span_head().candidates(question, passages) for c in candidates]
    return max(found, key=lambda c: c.margin).text if found else ""


def _whole(question: str, passages: list[tuple[str, str]]) -> str:
    numbered = [SourcePassage(id=i, title=title, text=text) for i, (title, text) in enumerate(passages, start=1)]
    with dspy.context(lm=extractive_lm(cache=False)):
        return dspy.Predict(AnswerFromPassages)(question=question, passages=numbered, style=STYLES["short"]).answer


def _score(asked: Sequence[Asked], read: Callable[[str, list[tuple[str, str]]], str]) -> list[str]:
    started = time.perf_counter()
    replies = [read(question, passages) for question, passages, _ in asked]
    spent = 1000 * (time.perf_counter() - started) / max(len(asked), 1)
    f1 = [max(token_f1(reply, answer) for answer in own) for reply, (_, _, own) in zip(replies, asked, strict=True)]
    resampled = np.random.default_rng(0).choice(f1, (1000, len(f1))).mean(1)
    low, high = np.quantile(resampled, (0.025, 0.975))
    return [f"{np.mean(np.equal(f1, 1)):.3f}", f"{np.mean(f1):.3f} [{low:.3f}, {high:.3f}]", f"{spent:.1f}"]


def _qed(file: Path) -> Iterator[Asked]:
    for line in file.read_text("utf-8").splitlines():
        record = json.loads(line)
        answers = [part["string"] for answer in record["original_nq_answers"] for part in answer]
        yield record["question_text"], [(record["title_text"], record["paragraph_text"])], answers


def _xquad(file: Path) -> Iterator[Asked]:
    for article in json.loads(file.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                passage = (article.get("title", ""), paragraph["context"])
                yield asked["question"], [passage], [answer["text"] for answer in asked["answers"]]


def _gold(file: Path) -> Iterator[Asked]:
    for record in json.loads(file.read_text("utf-8")):
        gold = {title for title, _ in record["supporting_facts"]}
        passages = [(title, " ".join(map(str.strip, text))) for title, text in record["context"] if title in gold]
        yield record["question"], passages, [record["answer"]]


_SETS: dict[str, tuple[str, Callable[[Path], Iterator[Asked]]]] = {
    "QED": ("qed_dev.jsonl", _qed),
    "XQuAD": ("xquad_en.json", _xquad),
    "HotpotQA": ("hotpot_dev_*.json", _gold),
    "2WikiMultihopQA": ("2wiki_dev_*.json", _gold),
}
