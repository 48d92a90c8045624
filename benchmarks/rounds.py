"""Draw the rounds in which KnowGap answers a question of the sample, as its trace prints them.

python benchmarks/rounds.py FILE.svg [QUESTION]
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from pathlib import Path

import dspy
from rich.console import Console

import knowgap

QUESTION = "What is the population of the birthplace of the producer of the album The Brezetheus Shadow?"


def main() -> None:
    """Ask the question with the embedded reader and write the picture."""
    file, question = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else QUESTION
    with tempfile.TemporaryDirectory() as folder, dspy.context(lm=knowgap.make_lm("extractive")):
        index = knowgap.build_index(knowgap.load_dataset("sample"), Path(folder) / "index")
        prediction = knowgap.KnowGap(index)(question=question)
    console = Console(record=True, width=110, file=io.StringIO())
    console.print(prediction.trace)
    drawn = console.export_svg(title="knowgap ask")
    local = re.sub(r"(?s)@font-face \{.*?\}\s*", "", drawn)  # without fonts that would be fetched from the network
    file.write_text(local, encoding="utf-8")


if __name__ == "__main__":
    main()
