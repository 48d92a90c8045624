"""Each benchmark with its smallest numbers, run as a user runs it."""

import json
import os
import re
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import mutations
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def run(*arguments: str, status: int = 0) -> tuple[str, str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("KNOWGAP_TEST_DATA", None)
    command = [sys.executable, str(FOLDER / "run.py"), *arguments, "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == status, done.stderr
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
    for name in ("dev", "train"):
        (tmp_path / "hotpotqa" / f"{name}.json").write_text(json.dumps(records), encoding="utf-8")
    return tmp_path


@pytest.mark.long
def test_the_machine_and_every_methods_critical_path_are_printed():
    sizes = ("--delay-ms", "5", "--repeat", "1", "--questions", "2", "--at-once", "2")
    report, log = run("concurrency", *sizes)
    assert "Machine: " in report
    assert "Traceback" not in log
    [rows] = tables(report).values()
    calls = {row["program"]: (int(row["calls"]), int(row["in sequence"])) for row in rows}
    assert calls["1 + 3 calls"] == (4, 2)
    assert calls["adaptive_note"] == (8, 8)  # nothing in it can run at once
    assert all(calls[name][1] < calls[name][0] for name in ("blend_filter", "ra_isf", "rq_rag"))


@pytest.mark.long
def test_sharing_saves_calls():
    report, _ = run("tuning", "--tuned", "rag", "--trials", "3", "--dev-questions", "3")
    [rows] = tables(report).values()
    assert [row["study"] for row in rows] == ["sharing and pruning", "neither"]
    assert int(rows[0]["LM calls"]) <= int(rows[1]["LM calls"])
    assert rows[1]["share of calls"] == "1.00"


@pytest.mark.long
def test_the_bundled_models_are_measured(data: Path):
    parts = ("embedded", "--embedded-parts", "relevance", "--embedded-questions", "2")
    report, log = run(*parts, "--data", str(data))
    [rows] = tables(report).values()
    assert [(row["data"], row["questions"]) for row in rows] == [("HotpotQA", "2")]
    assert "StrategyQA is left out" in log


@pytest.mark.long
def test_retrieval_is_compared(data: Path):
    sizes = ("--passages", "40", "--queries", "2", "--readings", "1", "--no-stock", "--data", str(data))
    build, search, gold, reading = tables(run("retrieval", *sizes)[0]).values()
    assert [row["engine"] for row in build] == ["knowgap"]
    assert {row["settings"]: row["recall k=10"] for row in search}["exact"] == "1.000"
    assert [row["retriever"] for row in gold] == ["BM25", "dense", "ColBERT", "hybrid", "hybrid, constant 60"]
    assert all(row["recall@5 [95%]"].startswith("1.000") for row in gold)  # three passages in all
    assert len({row["pairs per step"] for row in reading}) == 1


@pytest.mark.long
def test_evidence_is_followed_from_the_search_to_the_prompt(data: Path):
    report, log = run(
        "evidence", "--data", str(data), "--evidence-data", "HotpotQA", "--evidence-programs", "rag,migres"
    )
    figures, fates = tables(report).values()
    assert [row["program"] for row in figures] == ["rag", "migres"]
    assert {row["found"] for row in figures} == {"1.000"}, log
    for row, shares in zip(figures, fates, strict=True):
        numbers = {fate: float(share[:-1]) for fate, share in shares.items() if fate != "program"}
        assert sum(numbers.values()) == 100
        shown = sum(n for fate, n in numbers.items() if fate not in ("over a cap", "below the relevance threshold"))
        assert row["shown"] == f"{shown / 100:.3f}"


@pytest.mark.long
def test_near_misses_are_read():
    [rows] = tables(run("near_misses")[0]).values()
    assert [row["form"] for row in rows[-2:]] == ["chat", "json"]
    for row in rows:
        assert int(row["by DSPy's adapter alone"]) < int(row["read"]) == int(row["replies"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the benchmark of kills forks")
@pytest.mark.long
def test_killed_jobs_end_with_the_same_result():
    [rows] = tables(run("kills", "--jobs", "eval;replacing an artifact", "--job-kills", "2")[0]).values()
    assert [row["job"] for row in rows] == ["eval", "replacing an artifact"]
    for row in rows:
        assert int(row["kills"]) >= 2
        assert row["ended"] == row["identical"] != "0"
        assert row["leftovers"] == "none"


@pytest.mark.long
def test_a_service_keeps_started_answers_and_asks_nothing_for_clients_that_left():
    sizes = ("--service-seconds", "1", "--service-clients", "2", "--service-delay-ms", "50")
    report, _ = run("service", "--service-programs", "adaptive_note", *sizes)
    [rates], [ended] = tables(report).values()
    assert float(rates["served, questions/s"]) > 0
    assert ended["answers lost"] == "0"
    assert ended["calls of the model"] == ended["calls of answers that came"] != "0"
    assert ended["calls 1 s later"] == "0"
    assert int(ended["calls until then"]) < int(ended["calls that the answers of those who left take"])


@pytest.mark.long
def test_mutated_replies_raise_nothing_and_passages_forge_no_answer():
    for rows in tables(run("mutations")[0]).values():
        assert {(row["errors raised"], row["forged answers"]) for row in rows} == {("0", "0")}


def test_passages_with_field_marks_forge_no_answer_of_the_first_300_questions():
    """A part of the benchmark above, small enough for every run of the tests."""
    arguments = ArgumentParser()
    mutations.add_arguments(arguments)
    options = arguments.parse_args(["--mutations", "300", "--mutated", "rag_cot"])
    _, quoted = (dict(zip(table.columns, table.rows[0], strict=True)) for table in mutations.measure(options))
    assert quoted["replies that quote them"] >= 300
    assert (quoted["errors raised"], quoted["forged answers"]) == (0, 0)


def test_an_unknown_benchmark_is_named():
    assert "no benchmark 'nonsense'" in run("nonsense", status=2)[1]
