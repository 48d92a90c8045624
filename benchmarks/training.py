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

CONFIGS: dict[str, Any] = {"reranker": training.RerankerConfig, "colbert": training.ColBERTConfig}


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--training-kinds", default=",".join(CONFIGS), help="kinds of models (%(default)s)")
    group.add_argument("--training-questions", type=int, help="of the sample's train split (100; quick 8)")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """Measure what trainings gain."""
    questions = options.training_questions or (8 if options.quick else 100)
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as name:
        data, folder = knowgap.load_dataset("sample"), Path(name)
        index = knowgap.build_index(data.corpus, folder / "index", engine="bm25" if options.quick else "colbert")
        rows = []
        for kind in options.training_kinds.split(","):
            config = CONFIGS[kind](max_length=48, depth=8) if options.quick else CONFIGS[kind](max_length=128)
            trained = getattr(training, kind)(data, index, folder / kind, config=config, limit=questions)
            done = f"{trained.training.steps} steps, {seconds(trained.training.seconds)}"
            for order, score in trained.scores.items():
                p_value = f"{score.comparison.p_value:.3f}" if score.comparison else ""
                means = [str(score.means[metric]) for metric in ("recall@5", "mrr")]
                rows.append([kind, order, *means, p_value, done if order == "trained" else ""])
    yield Table(
        f"trained on {questions} questions of the sample, from the models that come with knowgap",
        ["model", "order", "gold in best 5", "MRR", "p", "training"],
        rows,
    )
