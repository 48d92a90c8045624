"""Write the sample's files, or a larger data set of the same kind: `python benchmarks/write_sample.py --help`."""

from __future__ import annotations

import argparse
from pathlib import Path

from fictional import write_dataset
from fictional.world import SAMPLE_SEED

SAMPLE = Path(__file__).parents[1] / "compile" / "data" / "sample"

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a data set of the fictional encyclopedia as JSON Lines files.")
    parser.add_argument("folder", nargs="?", type=Path, default=SAMPLE, help="where to (the sample's folder)")
    parser.add_argument("--passages", type=int, default=900, help="at least this many (900)")
    parser.add_argument("--seed", type=int, default=SAMPLE_SEED, help="which encyclopedia (the sample's, 0)")
    options = parser.parse_args()
    write_dataset(options.folder, options.passages, options.seed)
