"""The models that come with knowgap, on development sets, on which nothing was trained.

Reading: F1 of short answers where the passages are given. The reader as a whole answers the prompt of plain retrieval;
the span head (the trained model of answer spans) alone gives its best span. QED (Natural Questions) and XQuAD
(English) have one paragraph per question; HotpotQA and 2WikiMultihopQA have their gold paragraphs.

Relevance: the 50 passages that ColBERT finds for each question are reranked. The questions take several steps; where
there is one gold paragraph, ColBERT finds it among the best five. δ is the relevance threshold.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import dspy
import numpy as np
from bundled_models.reading_examples import squad_examples
from real_data import real_data, real_file
from table import Table, note, seconds

from knowgap.compiling.evaluation.metrics.answers import token_f1
from knowgap.compiling.evaluation.statistics import mean_interval, paired_comparison
from knowgap.lms import make_lm
from knowgap.lms.embedded.span_head import span_head
from knowgap.retrieval import ColBERTIndex, EmbeddedReranker
from knowgap.signatures import STYLES, AnswerFromPassages, SourcePassage

PARTS = ("reading", "relevance")
_RETRIEVED, _BEST = 50, 5


class Asked(NamedTuple):
    """A question, the (title, text) of the passages that answer it, and its answers."""

    question: str
    passages: list[tuple[str, str]]
    answers: list[str]


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--embedded-parts", default=",".join(PARTS), help="models, joined by commas (%(default)s)")
    group.add_argument("--embedded-questions", type=int, help="questions of each data set (150; quick 20)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure each of the models."""
    count = options.embedded_questions or (20 if options.quick else 150)
    for part in options.embedded_parts.split(","):
        yield from {"reading": _reading, "relevance": _relevance}[part](options, count)


def _files(options: argparse.Namespace, names: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Those of the data sets whose files are there."""
    for name in names:
        if (path := real_file(options, name, f"**/{_SETS[name][0]}")) is not None:
            yield name, path


def _qed(path: Path) -> Iterator[Asked]:
    for record in map(json.loads, path.read_text("utf-8").splitlines()):
        answers = [part["string"] for answer in record["original_nq_answers"] for part in answer]
        yield Asked(record["question_text"], [(record["title_text"], record["paragraph_text"])], answers)


def _xquad(path: Path) -> Iterator[Asked]:
    for e in squad_examples(path):
        yield Asked(e.question, [(e.title, e.text)], [e.text[slice(*place)] for place in e.answers])


def _multi_hop(path: Path) -> Iterator[Asked]:
    for record in json.loads(path.read_text("utf-8")):
        gold = {title for title, _ in record["supporting_facts"]}
        passages = [(title, " ".join(map(str.strip, text))) for title, text in record["context"] if title in gold]
        yield Asked(record["question"], passages, [record["answer"]])


_SETS: dict[str, tuple[str, Callable[[Path], Iterator[Asked]]]] = {
    "QED": ("qed_dev.jsonl", _qed),
    "XQuAD": ("xquad_en.json", _xquad),
    "HotpotQA": ("hotpot_dev_*.json", _multi_hop),
    "2WikiMultihopQA": ("2wiki_dev_*.json", _multi_hop),
}
"""By name, the pattern of its file, and what reads it."""


def _reading(options: argparse.Namespace, count: int) -> Iterator[Table]:
    readers = {"embedded reader": _whole, "span head alone": _head}
    rows = []
    for name, path in _files(options, _SETS):
        asked = list(_SETS[name][1](path))[:count]
        for reader, read in readers.items():
            note(f"reading: {reader} on {len(asked)} questions of {name}")
            started = time.perf_counter()
            replies = [read(each.question, each.passages) for each in asked]
            spent = (time.perf_counter() - started) / max(len(asked), 1)
            f1 = [max(token_f1(reply, a) for a in each.answers) for reply, each in zip(replies, asked, strict=True)]
            right = f"{np.mean(np.equal(f1, 1)):.3f}"
            rows.append([name, str(len(asked)), reader, right, str(mean_interval(f1)), seconds(spent)])
    columns = ["data", "questions", "reader", "F1 = 1", "F1 [95%]", "time of a question"]
    yield Table("Reading given passages", columns, rows, ["Intervals are bootstrapped over questions."])


def _head(question: str, passages: list[tuple[str, str]]) -> str:
    found = [c for candidates in span_head().candidates(question, passages) for c in candidates]
    return max(found, key=lambda c: c.margin).text if found else ""


def _whole(question: str, passages: list[tuple[str, str]]) -> str:
    numbered = [SourcePassage(id=i, title=title, text=text) for i, (title, text) in enumerate(passages, start=1)]
    with dspy.context(lm=make_lm("extractive", cache=False)):
        return dspy.Predict(AnswerFromPassages)(question=question, passages=numbered, style=STYLES["short"]).answer


def _relevance(options: argparse.Namespace, count: int) -> Iterator[Table]:
    rows = []
    for data in real_data(options):
        asked = [(e.question, set(e.gold_ids)) for e in data.splits["dev"] if e.gold_ids][:count]
        note(f"relevance: {len(asked)} questions of {data.name}")
        with TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
            found = ColBERTIndex.build(data.corpus, Path(folder) / "index").search([q for q, _ in asked], _RETRIEVED)
        reranker, started = EmbeddedReranker(), time.perf_counter()
        scores = [
            np.array(reranker.score([(question, str(hit.passage)) for hit in hits]))
            for (question, _), hits in zip(asked, found, strict=True)
        ]
        spent = (time.perf_counter() - started) / len(asked)
        gold = [
            np.array([h.passage.id in wanted for h in hits]) for (_, wanted), hits in zip(asked, found, strict=True)
        ]
        best = [np.argsort(-own, kind="stable")[:_BEST] for own in scores]
        before = [own[:_BEST].sum() / len(wanted) for own, (_, wanted) in zip(gold, asked, strict=True)]
        after = [own[top].sum() / len(wanted) for own, top, (_, wanted) in zip(gold, best, asked, strict=True)]
        compared = paired_comparison("recall", before, after)
        interval = f"{compared.difference:+.3f} [{compared.low:+.3f}, {compared.high:+.3f}]"
        delta = reranker.default_threshold or 0.0
        kept = [s[t][g[t]] >= delta for s, t, g in zip(scores, best, gold, strict=True) if g[t].any()]
        shown = [g[s >= delta].mean() for s, g in zip(scores, gold, strict=True) if (s >= delta).any()]
        cells = [str(mean_interval([float(v) for v in values])) for values in (before, after)]
        means = [f"{np.mean([k.mean() for k in kept]):.3f}" if kept else "–", f"{np.mean(shown):.3f}" if shown else "–"]
        rows.append([data.name, str(len(asked)), *cells, interval, f"{compared.p_value:.3f}", *means, seconds(spent)])
    yield Table(
        f"Gold passages among the best {_BEST} of {_RETRIEVED} retrieved, and what δ shows",
        ["data", "questions", "ColBERT", "embedded", "difference", "p", "gold of these ≥ δ", "gold in all ≥ δ", "time"],
        rows,
        ["Mean shares of a question's gold passages; 95% bootstrap intervals over questions, differences paired."],
    )
