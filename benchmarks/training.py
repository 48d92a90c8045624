"""What training gains on questions of the bundled sample that were not used for training.

Intervals are 95% bootstrap intervals; p is that of a paired permutation test against the order of the index.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from table import Table, seconds

import knowgap
from knowgap.compiling import training


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--training-questions", type=int, help="of the sample's train split (100; quick 8)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure what trainings gain."""
    questions = options.training_questions or (8 if options.quick else 100)
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        data, folder = knowgap.load_dataset("sample"), Path(name)
        index = knowgap.build_index(data.corpus, folder / "index", engine="bm25" if options.quick else "colbert")
        config = (
            training.RerankerConfig(max_length=48, depth=8)
            if options.quick
            else training.RerankerConfig(max_length=128)
        )
        trained = knowgap.train.reranker(data, index, folder / "reranker", config=config, limit=questions)
        rows = []
        for order, score in trained.scores.items():
            p_value = f"{score.comparison.p_value:.3f}" if score.comparison else ""
            rows.append([order, *(str(score.means[metric]) for metric in ("recall@5", "mrr")), p_value])
        done = f"{trained.training.steps} steps, {seconds(trained.training.seconds)}"
    yield Table(
        f"a reranker trained on {questions} questions of the sample, from the embedded base",
        ["order", "gold in best 5", "MRR", "p"],
        rows,
        [done],
    )
