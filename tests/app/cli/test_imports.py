"""What the commands that answer at once do not import: it would take seconds."""

import subprocess
import sys

import pytest

SLOW = {
    "transformers", "colbert", "optuna", "sentence_transformers", "sklearn", "scipy", "pandas", "accelerate", "peft",
    "litellm", "openai", "matplotlib", "starlette", "onnxruntime",
}  # fmt: skip
SCRIPT = """
import sys
import knowgap.compiling, knowgap.retrieval
from knowgap.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("imported:", *sorted({name.partition(".")[0] for name in sys.modules} & %r), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("command", "engine", "more"),
    [
        ("search", "bm25", {"torch", "dspy"}),
        ("search", "dense", {"dspy"}),
        ("ask", "bm25", set[str]()),
    ],
)
def test_one_question_imports_nothing_slow(knowgap, command, engine, more):
    knowgap("index", "--corpus", "docs.jsonl", "--index", engine, "--engine", engine)
    script = SCRIPT % (SLOW | more,)
    words = [command, "Who designed the Orle Bridge?", "--index", engine]
    run = [sys.executable, "-c", script, *words]
    done = subprocess.run(run, capture_output=True, text=True, cwd=knowgap.folder, timeout=120, check=False)
    assert done.stderr.strip().splitlines()[-1] == "imported:", done.stderr
    assert "Ada Venn" in done.stdout
