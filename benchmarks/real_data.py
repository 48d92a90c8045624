"""Real questions with their pooled paragraphs, from a folder of public data sets in their official layouts."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

from table import data_folder, note

from knowgap.compiling.data import load_dataset
from knowgap.compiling.data.dataset import Dataset

FILES = {
    "HotpotQA": "hotpotqa/*dev*.json",
    "2WikiMultihopQA": "2wikimultihopqa/*dev*.json",
    "StrategyQA": "strategyqa/*dev.json",
}
NOT_THERE = "left out: name a folder of real data with --data or KNOWGAP_TEST_DATA"


def real_data(options: argparse.Namespace, limit: int | None = None) -> Iterator[Dataset]:
    """Yield the data sets that exist, under the names of their papers; all questions are in the split "dev".

    Args:
        options: of the command line.
        limit: take the first `limit` questions; the corpus still has the paragraphs of all.
    """
    folder = data_folder(options)
    for name, pattern in FILES.items():
        file = next(iter(sorted(folder.glob(pattern))), None) if folder else None
        if file is None:
            note(f"{name} is {NOT_THERE}")
            continue
        data = load_dataset(file, split_as="dev", limit=limit)
        yield replace(data, name=name)
