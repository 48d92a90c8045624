"""Train the models that come with knowgap on public training sets.

    python benchmarks/train_bundled_models.py relevance reading --data FOLDER --output FOLDER

Of HotpotQA, 2WikiMultihopQA and squadshifts, it takes the training files that are in the folder, at any depth.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Read the command line, train the models, and print what was done as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=("relevance", "reading"))
    parser.add_argument("--data", type=Path, required=True, help="folder of public training sets")
    parser.add_argument("--output", type=Path, required=True, help="folder of the trained models")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    done = {part: train(part, options.data, options.output, options.seed) for part in options.parts}
    sys.stdout.write(json.dumps(done, indent=1) + "\n")


def train(part: str, data: Path, output: Path, seed: int = 0) -> dict[str, Any]:
    """Train one of the models; returns what was done, JSON-ready."""
    if part == "relevance":
        from bundled_models.relevance import train_relevance

        delta, pairs = train_relevance(data, output, seed)
        return {"delta": delta, "pairs": pairs}
    from bundled_models.reading import READING_CONFIG, train_reading

    result = train_reading(data, output / "reading", READING_CONFIG.model_copy(update={"seed": seed}))
    return {"steps": result.steps, "final_loss": result.final_loss}


if __name__ == "__main__":
    main()
