"""Write the sample's files, or those of another seed of the fictional encyclopedia.

python benchmarks/write_sample.py
python benchmarks/write_sample.py FOLDER --seed 5
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dspy
from fictional.articles import write_articles
from fictional.questions import ask_questions
from fictional.world import World

from knowgap.compiling.data.dataset import SPLITS

SAMPLE = Path(__file__).parents[1] / "compile" / "data" / "sample"


def write_dataset(folder: Path, seed: int = 0) -> None:
    """Write `corpus.jsonl`, `train.jsonl`, `dev.jsonl` and `test.jsonl`, which `knowgap.load_dataset(folder)` reads.

    Args:
        folder: made where it does not exist; files of these names in it are replaced.
        seed: its three worlds go to train, dev and test, so that the splits share no entity.
    """
    worlds = [World(len(SPLITS) * seed + place) for place in range(len(SPLITS))]
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "corpus.jsonl", (passage.to_dict() for world in worlds for passage in write_articles(world)))
    for split, world in zip(SPLITS, worlds, strict=True):
        _write(folder / f"{split}.jsonl", map(_record, ask_questions(world)))


def _record(example: dspy.Example) -> dict[str, Any]:
    """A question in the layout of users' own JSON Lines."""
    fields = ("id", "question", "answer", "type", "gold_ids", "evidences", "decomposition")
    return {field: example.aliases if field == "answer" else example[field] for field in fields}


def _write(path: Path, records: Iterable[dict[str, Any]]) -> None:
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a data set of the fictional encyclopedia as JSON Lines files.")
    parser.add_argument("folder", nargs="?", type=Path, default=SAMPLE, help="where to (the sample's folder)")
    parser.add_argument("--seed", type=int, default=0, help="which encyclopedia (the sample's, 0)")
    options = parser.parse_args()
    write_dataset(options.folder, options.seed)
