"""Train the models that come with knowgap on public training sets.

    python benchmarks/train_bundled_models.py relevance reading --data FOLDER --output FOLDER

Of HotpotQA, 2WikiMultihopQA and squadshifts, it takes the training files that are in the folder, at any depth.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path


def main() -> None:
    """Read the command line, train the models, and print what was done as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=("relevance", "reading"))
    parser.add_argument("--data", type=Path, required=True, help="folder of public training sets")
    parser.add_argument("--output", type=Path, required=True, help="folder of the trained models")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for part in options.parts:
        done = importlib.import_module(f"bundled_models.{part}").train(options.data, options.output, options.seed)
        sys.stdout.write(f"{part}: {json.dumps(done)}\n")


if __name__ == "__main__":
    main()
