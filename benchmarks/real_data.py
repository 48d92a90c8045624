"""Real questions with their pooled paragraphs, from a folder of public data sets in their official layouts."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from table import data_folder, note

from knowgap.compiling.data import load_dataset
from knowgap.compiling.data.dataset import Dataset

FILES = {
    "HotpotQA": "hotpotqa/*dev*.json",
    "2WikiMultihopQA": "2wikimultihopqa/*dev*.json",
    "StrategyQA": "strategyqa/*dev.json",
}
NOT_THERE = "left out: name a folder of real data with --data or KNOWGAP_TEST_DATA"


def real_file(options: argparse.Namespace, name: str, pattern: str) -> Path | None:
    """The first file of the folder of real data that matches a pattern; says so and returns None if there is none."""
    folder = data_folder(options)
    found = sorted(folder.glob(pattern)) if folder else []
    if not found:
        note(f"{name} is {NOT_THERE}")
    return next(iter(found), None)


def real_data(options: argparse.Namespace, limit: int | None = None) -> Iterator[Dataset]:
    """Yield the data sets that exist, under the names of their papers; all questions are in the split "dev".

    Args:
        options: of the command line.
        limit: take the first `limit` questions; the corpus still has the paragraphs of all.
    """
    for name, pattern in FILES.items():
        if (file := real_file(options, name, pattern)) is not None:
            yield replace(load_dataset(file, split_as="dev", limit=limit), name=name)
