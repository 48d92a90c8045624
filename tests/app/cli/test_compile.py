"""compile: its options reach the library, and what it would cost is said before."""

import json

from tests.app.cli.conftest import QUESTIONS, write_lines

STUDY = ("--program", "rag", "--limit", "2", "--num-threads", "1", "-o", "out")


def test_calibrates(knowgap):
    calibrate = ("compile", "--optimizer", "calibrate", "--limit", "3", "-o", "out")
    printed, _ = knowgap(*calibrate, "--part", "reranker=embedded", "--set", "retrieve_k=10", "--study", "share=1.0")
    saved = json.loads((knowgap.folder / "out" / "artifact" / "config.json").read_text())["hyperparameters"]["delta"]
    assert f"→ {saved}" in printed


def rows(printed: str, label: str) -> list[str]:
    """The lines of tables whose first cell is `label`."""
    return [line for line in printed.splitlines() if line.startswith(f"│ {label} ")]


def test_estimates_before_anything_is_spent(knowgap):
    printed, _ = knowgap("compile", *STUDY, "--n-trials", "7", "--dry-run")
    # seven trials of two questions, and scores before and after of two dev and two test questions
    assert [cell.strip() for cell in rows(printed, "rag")[0].split("│")[2:4]] == ["22", "22"]
    assert not (knowgap.folder / "out" / "artifact").exists()
    printed, _ = knowgap("compile", "--program", "all", *STUDY[2:], "--dry-run")
    assert (len(rows(printed, "rag")), rows(printed, "direct")) == (1, [])
    (knowgap.folder / "mine").mkdir()  # without a test split, there is nothing more to score
    for split, question in zip(("train", "dev"), QUESTIONS, strict=False):
        write_lines(knowgap.folder / "mine" / f"{split}.jsonl", [question])
    printed, _ = knowgap("compile", *STUDY, "--data", "mine", "--index", "sample", "--n-trials", "7", "--dry-run")
    assert [cell.strip() for cell in rows(printed, "rag")[0].split("│")[2:4]] == ["9", "9"]
