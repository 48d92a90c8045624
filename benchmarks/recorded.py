"""Keep the answers of an experiment without the text of its data, so that a later run continues from them.

    python benchmarks/recorded.py OUTPUT benchmarks/recorded/NAME   # after `knowgap experiment … --output-dir OUTPUT`
    cp -r benchmarks/recorded/NAME/answers OUTPUT/                  # before it, where there is no OUTPUT yet

A record has the question's id, the answer, its scores and costs, and the names of passages. Questions and reference
answers are left out; the experiment takes them from the data.
"""

from __future__ import annotations

import sys
from pathlib import Path

from knowgap.compiling.evaluation.runner import QuestionRecord
from knowgap.storage.files import write_file


def record(output: Path, target: Path) -> int:
    """Copy the answers in `OUTPUT/answers` to `TARGET/answers`; returns how many there are."""
    count = 0
    for file in sorted((output / "answers").glob("*.jsonl")):
        header, *lines = file.read_text(encoding="utf-8").splitlines()
        records = [QuestionRecord.model_validate_json(line) for line in lines]
        fields = [each.model_dump_json(exclude={"question", "reference", "trace"}) for each in records if not each.lost]
        count += len(fields)
        write_file(target / "answers" / file.name, "\n".join([header, *fields, ""]))
    return count


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.stdout.write(f"{record(Path(sys.argv[1]), Path(sys.argv[2]))} answers in {sys.argv[2]}\n")
