"""demo: every step holds what it claims."""

from __future__ import annotations

import json
import re

import dspy
import pytest

from knowgap.cli.demo import find_question
from knowgap.compiling.data import load_dataset
from knowgap.compiling.evaluation.metrics.normalize import normalize_answer
from knowgap.lms import make_lm
from knowgap.programs import get_program
from knowgap.programs.trace.evidence import FATES


def cells(printed: str, label: str) -> list[list[str]]:
    """The rows of tables whose first cell is `label`."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines() if line.startswith("│")]
    return [row[1:] for row in rows if row[:1] == [label]]


@pytest.mark.long
def test_runs_the_whole_loop(knowgap):
    printed, _ = knowgap("demo", "--limit", "8", "--n-trials", "2", "--output-dir", "out")
    [[gold, _]] = cells(printed, "the encyclopedia")
    rag, found = cells(printed, "rag")[0][0], cells(printed, "knowgap")[0][0]
    assert normalize_answer(found) == normalize_answer(gold) != normalize_answer(rag)
    [number] = re.findall(r"number (\d+)", printed)
    assert load_dataset("sample").splits["dev"][int(number) - 1].answer == gold

    [kept] = re.findall(r"^(\w+) is kept\.", printed, re.MULTILINE)
    gains = {}
    for name in ("rag", "blend_filter"):
        [row] = [row for row in cells(printed, name) if len(row) == 5 and row[2].startswith(("+", "-"))]
        gains[name] = float(row[2].split()[0])
        assert gains[name] == pytest.approx(float(row[1]) - float(row[0]), abs=0.0011)
    assert gains[kept] == max(gains.values())

    config = json.loads((knowgap.folder / "out" / "artifact" / "config.json").read_text(encoding="utf-8"))
    assert kept in json.dumps(config)
    state = json.loads((knowgap.folder / "out" / "artifact" / "program.json").read_text(encoding="utf-8"))
    assert not any(value.get("demos") for value in state.values() if isinstance(value, dict))
    comparison = cells(printed, f"{kept} tuned")[-1]
    assert sum(map(int, comparison[1:4])) == 8
    [(answer, reference)] = re.findall(r"prints: (.*?)   \(the encyclopedia says: (.*)\)", printed)
    assert normalize_answer(answer) == normalize_answer(reference)
    ending = printed.partition("\n7. ")[2]
    asked = {e.question: e for e in load_dataset("sample").splits["test"][:8]}
    shown = [line for line in ending.splitlines() if line in asked]
    assert [f"says: {asked[question].answer}" in ending for question in shown] == [True, True]
    fates = [line.rpartition(": ")[2] for line in ending.splitlines() if line.startswith("  ")]
    assert set(fates) & {*FATES}
    places = [printed.index(title) for title in ("gold passages: found", "sample, test split", "question by question")]
    assert places == sorted(places)


def test_finds_no_question_that_only_the_same_program_answers():
    examples = [dspy.Example(question="Who designed the Orle Bridge?", answer="Ada Venn")]
    assert find_question(examples, get_program("direct")(), get_program("direct")(), make_lm("extractive")) is None
