"""The embedded reranker against the order of the index and against the formula that it replaced.

Questions of development sets, which nothing was trained on; the 50 passages that ColBERT finds for each are reranked.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from real_data import real_data
from table import Table, data_folder, note

from knowgap.compiling.evaluation.statistics import mean_interval, paired_comparison
from knowgap.retrieval import ColBERTIndex, Passage
from knowgap.retrieval.lexical import Stemmed, content_words
from knowgap.retrieval.minilm import sentence_encoder
from knowgap.retrieval.rerankers.relevance import RelevanceFeatures, RelevanceModel, coverage

__all__ = ["add_arguments", "measure"]

_RETRIEVED, _BEST = 50, 5
_FORMER_DELTA = -0.5
_TIMED = 5

Score = Callable[[list[tuple[str, str]]], list[float]]


@dataclass(frozen=True)
class Questions:
    """A set of questions with the ids of their gold passages, and the passages."""

    name: str
    passages: list[Passage]
    questions: list[tuple[str, set[str]]]


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--relevance-questions", type=int, default=300, help="of each set at most (300)")
    group.add_argument("--relevance-indexes", type=Path, help="keep the indexes in this folder, and take those there")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Yield a table of ranking, one of δ and precision, and one of the time."""
    limit = 20 if options.quick else options.relevance_questions
    model = RelevanceModel.load()
    features = RelevanceFeatures(model.projection)
    ranking, shown, walls = list[list[str]](), list[list[str]](), list[float]()
    with TemporaryDirectory(prefix="knowgap-benchmark-") as temporary:
        folder = options.relevance_indexes or Path(temporary)
        for data in [*_development(options), *_paragraph_questions(options)]:
            asked = data.questions[:limit]
            note(f"relevance: {data.name}, {len(asked)} questions")
            where = folder / data.name
            index = ColBERTIndex.open(where) if where.exists() else ColBERTIndex.build(data.passages, where)
            found = index.search([question for question, _ in asked], _RETRIEVED)
            grouped = [
                [(question, str(hit.passage)) for hit in hits] for (question, _), hits in zip(asked, found, strict=True)
            ]
            walls = walls or [_seconds(pairs) for pairs in grouped[:_TIMED]]
            gold = [[hit.passage.id in wanted for hit in hits] for (_, wanted), hits in zip(asked, found, strict=True)]
            wanted = [len(ids) for _, ids in asked]
            computed = np.concatenate([features.compute(pairs) for pairs in grouped])
            orders = {
                "ColBERT": [-float(hit.rank) for hits in found for hit in hits],
                "former formula": former_scores([pair for pairs in grouped for pair in pairs], computed[:, 0].tolist()),
                "embedded": model.logits(computed).tolist(),
            }
            per_question = {name: _split(scores, gold) for name, scores in orders.items()}
            ranking += _ranking_rows(data.name, per_question, gold, wanted)
            deltas = {"former formula": _FORMER_DELTA, "embedded": model.delta}
            for name, delta in deltas.items():
                shown.append([data.name, name, f"{delta:g}", *_shown(per_question[name], gold, delta)])
    yield Table(
        f"Gold passages among the best {_BEST} of {_RETRIEVED} retrieved",
        ["data", "order", "questions", f"recall@{_BEST}", "difference to ColBERT", "p"],
        ranking,
        ["The mean share of a question's gold passages; 95% bootstrap intervals over questions, differences paired."],
    )
    yield Table(
        "What δ shows",
        ["data", "scored by", "δ", f"gold among the best {_BEST} that is shown", "gold among what is shown"],
        shown,
        ["Means over the questions that have gold among the best, or any text shown; 95% bootstrap intervals."],
    )
    median = f"{np.median(walls):.2f} s" if walls else "–"
    yield Table(
        "Time to rerank",
        ["passages", "wall, median", "lowest", "highest"],
        [[_RETRIEVED, median, f"{min(walls):.2f} s", f"{max(walls):.2f} s"]] if walls else [],
        [f"{_TIMED} questions; no passage was encoded before."],
    )


def _seconds(pairs: list[tuple[str, str]]) -> float:
    features = RelevanceFeatures(RelevanceModel.load().projection)  # it remembers no text yet
    features.compute([("to", "warm up")])
    started = time.perf_counter()
    features.compute(pairs)
    return time.perf_counter() - started


def former_scores(pairs: Sequence[tuple[str, str]], similarity: Sequence[float]) -> list[float]:
    """The reranker before this one: similarity and coverage, with constants that were fitted by hand."""
    stemmed, scores = Stemmed(), list[float]()
    for (query, text), cosine in zip(pairs, similarity, strict=True):
        words = content_words(query)
        weights = [rarity**2 for rarity in sentence_encoder().rarity(words)]
        scores.append(8.7 * cosine + 4.6 * coverage(words, weights, text, stemmed) - 7.7)
    return scores


def _split(scores: Sequence[float], gold: Sequence[Sequence[bool]]) -> list[np.ndarray]:
    return np.split(np.asarray(scores), np.cumsum([len(own) for own in gold])[:-1])


def _best(scores: np.ndarray) -> np.ndarray:
    return np.argsort(-scores, kind="stable")[:_BEST]


def _ranking_rows(
    data: str, orders: dict[str, list[np.ndarray]], gold: Sequence[Sequence[bool]], wanted: Sequence[int]
) -> list[list[str]]:
    recalls = {
        name: [
            float(np.asarray(own)[_best(scores)].sum()) / count
            for scores, own, count in zip(order, gold, wanted, strict=True)
        ]
        for name, order in orders.items()
    }
    rows = []
    for name, values in recalls.items():
        row = [data, name, str(len(values)), str(mean_interval(values))]
        if name == "ColBERT":
            rows.append([*row, "–", "–"])
            continue
        compared = paired_comparison("recall", recalls["ColBERT"], values)
        interval = f"{compared.difference:+.3f} [{compared.low:+.3f}, {compared.high:+.3f}]"
        rows.append([*row, interval, f"{compared.p_value:.3f}"])
    return rows


def _shown(order: Sequence[np.ndarray], gold: Sequence[Sequence[bool]], delta: float) -> list[str]:
    passed, precise = [], []
    for scores, own in zip(order, gold, strict=True):
        labels = np.asarray(own)
        best = _best(scores)
        if labels[best].any():
            passed.append(float((scores[best][labels[best]] >= delta).mean()))
        if (scores >= delta).any():
            precise.append(float(labels[scores >= delta].mean()))
    return [str(mean_interval(passed)), str(mean_interval(precise))]


def _development(options: argparse.Namespace) -> Iterator[Questions]:
    for data in real_data(options):
        asked = [(example.question, set(example.gold_ids)) for example in data.splits["dev"] if example.gold_ids]
        yield Questions(data.name, list(data.corpus), asked)


def _paragraph_questions(options: argparse.Namespace) -> Iterator[Questions]:
    """XQuAD in English (SQuAD's layout) and QED: each question has one paragraph."""
    folder = data_folder(options)
    for name, pattern in (("XQuAD", "*/xquad_en.json"), ("QED", "*/qed_dev.jsonl")):
        file = next(iter(sorted(folder.glob(pattern))), None) if folder else None
        if file is None:
            note(f"{name} is left out: no {pattern}")
            continue
        read = _squad if file.suffix == ".json" else _qed
        ids: dict[tuple[str, str], str] = {}
        asked = [(q, {ids.setdefault((title, text), f"p{len(ids)}")}) for q, title, text in read(file)]
        yield Questions(name, [Passage(id, title, text) for (title, text), id in ids.items()], asked)


def _squad(file: Path) -> Iterator[tuple[str, str, str]]:
    for article in json.loads(file.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield question["question"], article["title"].replace("_", " "), paragraph["context"]


def _qed(file: Path) -> Iterator[tuple[str, str, str]]:
    for line in file.read_text("utf-8").splitlines():
        record = json.loads(line)
        yield record["question_text"], record["title_text"], record["paragraph_text"]
