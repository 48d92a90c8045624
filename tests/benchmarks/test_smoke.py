"""Each benchmark with its smallest numbers, run as a user runs it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from results import RECORDED, read
from results import tables as results_of

FOLDER = Path(__file__).parents[2] / "benchmarks"


def run(*arguments: str) -> tuple[str, str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("KNOWGAP_TEST_DATA", None)
    command = [sys.executable, str(FOLDER / "run.py"), *arguments, "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def tables(report: str) -> dict[str, list[dict[str, str]]]:
    """Return each table's rows by its title, as mappings from column to cell."""
    rows_of = {}
    for title, body in re.findall(r"^### (.*)\n\n((?:\|.*\n)+)", report, re.MULTILINE):
        lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in body.splitlines()]
        rows = [lines[0], *lines[2:]]
        assert all(len(row) == len(rows[0]) for row in rows)
        rows_of[title] = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    return rows_of


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with two questions in HotpotQA's layout."""
    people = [("Ada Moor", "Wick"), ("Bo Reed", "Tarn"), ("Cy Holt", "Dunmore")]
    context = [[name, [f"{name} was a painter.", f" {name} was born in {town}."]] for name, town in people]
    shared = {"context": context, "type": "bridge", "level": "easy"}
    records = [
        {"_id": name, "question": f"Where was {name} born?", "answer": town, "supporting_facts": [[name, 1]], **shared}
        for name, town in people[:2]
    ]
    (tmp_path / "hotpotqa").mkdir()
    (tmp_path / "hotpotqa" / "dev.json").write_text(json.dumps(records), encoding="utf-8")
    return tmp_path


@pytest.mark.long
def test_every_methods_critical_path_is_printed():
    report, log = run("concurrency", "--delay-ms", "5", "--count", "1")
    assert "Machine: " in report
    assert "Traceback" not in log
    [paths] = tables(report).values()
    calls = {row["program"]: (int(row["calls"]), int(row["in sequence"])) for row in paths}
    assert calls["adaptive_note"] == (8, 8)  # nothing in it can run at once
    assert all(calls[name][1] < calls[name][0] for name in ("blend_filter", "ra_isf", "rq_rag"))


@pytest.mark.long
def test_engines_and_what_becomes_of_evidence_are_measured_on_data_of_ones_own(data: Path):
    sizes = ("--passages", "40", "--count", "2")
    report, _ = run("retrieval", "evidence", "embedded", "--data", str(data), "--programs", "rag", "migres", *sizes)
    found = tables(report)
    assert all(found.values())
    [figures] = [rows for rows in found.values() if "shown" in rows[0]]
    assert [row["program"] for row in figures] == ["rag", "migres"]
    assert {row["found"] for row in figures} == {"1.000"}


@pytest.mark.long
def test_near_misses_are_read_and_mutated_replies_raise_nothing():
    near, *changed = tables(run("near_misses", "mutations")[0]).values()
    assert all(row["read"] == row["replies"] for row in near)
    assert {(row["errors raised"], row["forged answers"]) for rows in changed for row in rows} == {("0", "0")}


@pytest.mark.long
def test_killed_jobs_end_with_the_same_result():
    [rows] = tables(run("kills", "--parts", "eval", "index", "--count", "2")[0]).values()
    for row in rows:
        assert int(row["kills"]) >= 2
        assert row["ended"] == row["identical"] != "0"


@pytest.mark.long
def test_a_service_is_measured_beside_the_program():
    report, _ = run("service", "--programs", "adaptive_note", "--seconds", "1", "--delay-ms", "50")
    [[rates]] = tables(report).values()
    assert float(rates["served, questions/s"]) > 0
    assert float(rates["calls per question"]) >= 1


@pytest.mark.long
def test_answers_are_recorded_once_and_printed(data: Path, tmp_path: Path):
    folders = ("--data", str(data), "--work", str(tmp_path / "work"), "--to", str(tmp_path / "recorded"))
    command = [sys.executable, str(FOLDER / "record.py"), *folders, "--model", "Qwen2.5-Coder-0.5B"]
    command += ["--lm", "extractive"]
    written = []
    for _ in range(2):
        subprocess.run(command, check=True, capture_output=True)
        written.append({file.name: file.read_bytes() for file in (tmp_path / "recorded").iterdir()})
    assert written[0] == written[1]  # with the seconds of the first run: nothing is asked again
    [table] = results_of(read(tmp_path / "recorded"))
    assert [row[0] for row in table.rows] == ["rag", "knowgap", "ircot", "migres", "adaptive_note", "blend_filter"]
    assert {row[1] for row in table.rows} == {2}


def test_the_page_of_results_has_the_tables_of_the_recordings():
    page = (FOLDER.parent / "docs/results.md").read_text(encoding="utf-8")
    printed = [table.markdown() for table in results_of(read(RECORDED))]
    assert printed
    assert all(table.strip() in page for table in printed)
