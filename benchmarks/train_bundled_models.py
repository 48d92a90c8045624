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

from table import note

PARTS = ("relevance", "reading")


def main() -> None:
    """Read the command line, train the models, and print what was done as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--data", type=Path, required=True, help="folder of public training sets")
    parser.add_argument("--output", type=Path, required=True, help="folder of the trained models")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    done = {part: train(part, options.data, options.output, options.seed) for part in options.parts}
    sys.stdout.write(json.dumps(done, indent=1) + "\n")


def train(part: str, data: Path, output: Path, seed: int = 0) -> dict[str, Any]:
    """Train one of the models; returns what was done, JSON-ready."""

    def progress(done: int, total: int, what: str) -> None:
        if done % max(1, total // 20) == 0:
            note(f"{part}: {done}/{total} {what}")

    if part == "relevance":
        from bundled_models.relevance import train_relevance

        delta, pairs = train_relevance(data, output, seed=seed, progress=progress)
        return {"delta": delta, "pairs": pairs}
    from bundled_models.reading import READING_CONFIG, train_reading

    config = READING_CONFIG.model_copy(update={"seed": seed})
    result = train_reading(data, output / "reading", config=config, progress=progress)
    return {"steps": result.steps, "final_loss": result.final_loss}


if __name__ == "__main__":
    main()
