"""compile: what it finds, what it saves, and what it refuses."""

from __future__ import annotations

import json

from knowgap.compiling import Evaluations

STUDY = ("--program", "rag", "--limit", "2", "--num-threads", "1", "-o", "out")


def test_calibrates(knowgap):
    calibrate = ("compile", "--optimizer", "calibrate", "--limit", "3", "-o", "out")
    printed, _ = knowgap(*calibrate, "--part", "reranker=embedded", "--set", "retrieve_k=10", "--study", "share=1.0")
    saved = json.loads((knowgap.folder / "out" / "artifact" / "config.json").read_text())["hyperparameters"]["delta"]
    assert f"→ {saved}" in printed


def test_finds_demonstrations_alone(knowgap):
    printed, _ = knowgap("compile", *STUDY, "--optimizer", "labeled", "--study", "k=1")
    assert "demonstrations of answer: 0 → 1" in printed
    out = knowgap.folder / "out"
    assert (out / "artifact" / "config.json").exists()
    assert [*Evaluations.load(out)] == ["dev before", "dev after", "test before", "test after"]


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


SEVERAL = ("--program", "rag,rag_cot,iter_retgen", *STUDY[2:])


def test_finds_the_best_of_several_programs(knowgap):
    words = (*SEVERAL, "--limit", "4", "--n-trials", "6")
    printed, remarks = knowgap("compile", *words)
    assert "are studied: as they are, they are the best of 3" in " ".join(remarks.split())
    assert "3 programs as they are" in printed
    config = json.loads((knowgap.folder / "out" / "artifact" / "config.json").read_text())
    assert (config["program"], [*config["evaluations"]]) == ("rag", ["dev before", "test before"])
    assert "the best of 3 trials" in " ".join(printed.split())
    again, _ = knowgap("compile", *words, "--study", "hold_out=0")
    config = json.loads((knowgap.folder / "out" / "artifact" / "config.json").read_text())
    assert "test after" in config["evaluations"]
    assert f"{config['program']}: the best of 3 trials" in " ".join(again.split())
