"""Write the sample's files, or those of another seed of the fictional encyclopedia.

python benchmarks/write_sample.py [FOLDER --seed 5]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from fictional.articles import write_articles
from fictional.questions import ask_questions
from fictional.world import World

from knowgap.compiling.data.dataset import SPLITS

_FIELDS = ("id", "question", "answer", "type", "gold_ids", "evidences", "decomposition")
SAMPLE = Path(__file__).parents[1] / "compile" / "data" / "sample"


def write_dataset(folder: Path, seed: int = 0) -> None:
    """Write `corpus.jsonl`, `train.jsonl`, `dev.jsonl` and `test.jsonl`, which `knowgap.load_dataset(folder)` reads.

    Args:
        folder: made where it does not exist; files of these names in it are replaced.
        seed: its three worlds go to train, dev and test, so that the splits share no entity.
    """
    worlds = [World(len(SPLITS) * seed + place) for place in range(len(SPLITS))]
    files = {"corpus": [passage.to_dict() for world in worlds for passage in write_articles(world)]}
    for split, world in zip(SPLITS, worlds, strict=True):
        asked = ask_questions(world)
        files[split] = [{f: each.aliases if f == "answer" else each[f] for f in _FIELDS} for each in asked]
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in files.items():
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a data set of the fictional encyclopedia as JSON Lines files.")
    parser.add_argument("folder", nargs="?", type=Path, default=SAMPLE, help="where to (the sample's folder)")
    parser.add_argument("--seed", type=int, default=0, help="which encyclopedia (the sample's, 0)")
    options = parser.parse_args()
    write_dataset(options.folder, options.seed)
