"""What the commands that answer at once do not import: it would take seconds."""

import subprocess
import sys

import pytest

SLOW = ("transformers", "colbert", "optuna", "sentence_transformers", "sklearn", "pandas", "accelerate", "peft")
SCRIPT = """
import sys
from knowgap.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("imported:", *sorted({name.partition(".")[0] for name in sys.modules} & set(%r)), file=sys.stderr)
"""


@pytest.mark.parametrize("engine", ["bm25", "colbert", "dense"])
def test_a_search_imports_nothing_slow(knowgap, engine):
    knowgap("index", "--corpus", "docs.jsonl", "--index", engine, "--engine", engine)
    command = [sys.executable, "-c", SCRIPT % (SLOW,), "search", "Who designed the Orle Bridge?", "--index", engine]
    done = subprocess.run(command, capture_output=True, text=True, cwd=knowgap.folder, timeout=120, check=False)
    assert done.stderr.strip().splitlines()[-1] == "imported:", done.stderr
    assert "Ada Venn" in done.stdout
