"""The tables of `knowgap experiment`: those that come with it, what is refused, cells and what they will cost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from experiment_helpers import make_table

from knowgap.compiling.evaluation.estimate import call_bound
from knowgap.compiling.experiments.cells import ExperimentSetup, paper_differences, prepare
from knowgap.compiling.experiments.probes import score_metrics
from knowgap.compiling.experiments.runner import estimate_experiment, run_experiment
from knowgap.compiling.experiments.table import read_table, shipped_tables
from knowgap.errors import DataError, UnknownName, UsageError
from knowgap.lms import extractive_lm
from knowgap.programs import PROGRAMS

COLUMNS = 'title = "t"\n[[columns]]\ndataset = "d"\nmetrics = ["f1"]\n'
ROW = '[[rows]]\nlabel = "r"\nprogram = "rag"\n'


@pytest.mark.parametrize("name", sorted(shipped_tables()))
def test_every_shipped_table_resolves_and_is_estimated(name: str, tmp_path: Path):
    table = read_table(name)
    cells = prepare(table, ExperimentSetup(output=tmp_path), dry=True)
    assert len(cells) == len(table.rows) * len(table.columns)
    assert not any("," in row.label for row in table.rows)
    assert all((cell.program is None) == bool(cell.reason) for cell in cells)
    estimates = estimate_experiment(table, output=tmp_path, prices=(1.0, 2.0))
    for each in estimates.values():
        assert 0 < each.questions <= each.calls < each.completion_tokens < each.prompt_tokens
        assert each.money == pytest.approx((each.prompt_tokens + 2 * each.completion_tokens) / 1e6)
    assert not any(tmp_path.iterdir())


def test_the_sample_table_runs_all_programs():
    assert {row.program for row in read_table("sample").rows} == set(PROGRAMS)


@pytest.mark.parametrize(
    ("table", "row", "column", "figures"),
    [
        ("migres_table3", "MIGRES", "nq_open", [43.0, 80.0]),
        ("ra_isf_table2", "without passage relevance", "hotpotqa", [34.7]),
        ("blend_filter_table2", "BlendFilter", "hotpotqa", [0.508, 0.624]),
        ("migres_table3", "VTG", "strategyqa", [None, None]),
    ],
)
def test_a_papers_figures_stand_where_it_prints_them(table: str, row: str, column: str, figures: list):
    read = read_table(table)
    place = [r.label for r in read.rows].index(row), [c.dataset for c in read.columns].index(column)
    assert list(read.printed(*place).values()) == figures


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "is not TOML"),
        ('title = "\xe9', "is not TOML"),
        ('title = "t"\ncolumns = []\nrows = []', "columns"),
        (COLUMNS + '[[rows]]\nlabel = "r"', "exactly one of program"),
        ('baseline = "x"\n' + COLUMNS + ROW, "unknown baseline 'x': known are r"),
        (COLUMNS + 'task = "guess"\n' + ROW, "'guess'"),
        (COLUMNS + ROW + ROW, "two rows have the label 'r'"),
        (COLUMNS + ROW + "paper = [1.0, 2.0]", "2 of the paper's figures, not 1"),
        (COLUMNS + ROW + "paper = [1.0]", "names no paper"),
    ],
)
def test_a_bad_table_is_refused_with_its_file_and_the_reason(text: str, message: str, tmp_path: Path):
    path = tmp_path / "t.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=re.escape(message)) as error:
        read_table(path)
    assert "t.toml" in str(error.value)


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        ({"data": {"mine": "x"}}, "mine"),
        ({"rows": ["nobody"]}, "nobody"),
        ({"as_paper": ["prompts"]}, "prompts"),
        ({"engine": "elastic"}, "elastic"),
        ({"limit": 0}, "at least one"),
        ({}, "own=PATH"),
    ],
)
def test_options_that_fit_nothing_are_refused(setup: dict, message: str, tmp_path: Path):
    with pytest.raises(UsageError, match=message):
        prepare(make_table(), ExperimentSetup(output=tmp_path, **setup))


def test_unknown_names_and_missing_passages_are_refused(data: dict, tmp_path: Path):
    table = make_table(rows=[{"label": "typo", "program": "mirgres"}], baseline="")
    with pytest.raises(UsageError, match=r"'typo' on houses: .*migres"):
        prepare(table, ExperimentSetup(output=tmp_path, **data))
    with pytest.raises(UsageError, match="own has no passages of its own"):
        prepare(make_table(), ExperimentSetup(output=tmp_path, data=data["data"]))
    with pytest.raises(UnknownName, match="exact_mach"):
        score_metrics(["exact_mach"])
    with pytest.raises(UnknownName, match="no_such_table"):
        read_table("no_such_table")


def test_a_column_decides_on_presets_and_wording():
    cells = prepare(read_table("migres_table3"), ExperimentSetup(output=Path()), dry=True)
    values = {c.column.dataset: c.program.values() for c in cells if c.row.label == "MIGRES" and c.program}
    assert [values[name]["iterations"] for name in ("hotpotqa", "nq_open", "strategyqa")] == [5, 3, 5]
    assert [values[name]["style"] for name in ("hotpotqa", "nq_open", "strategyqa")] == ["short", "short", "yes_no"]
    assert values["nq_open"]["delta"] is None  # the paper's threshold is on another reranker's scale


def test_what_a_table_does_not_show_is_said(tmp_path: Path):
    table, setup = read_table("adaptive_note_table1"), ExperimentSetup(output=tmp_path)
    for cell in prepare(table, setup, dry=True):
        said = "; ".join(paper_differences(cell, table, setup))
        if said and cell.row.program == "adaptive_note":
            assert ("not Elasticsearch's BM25 with boosted titles" in said) is ("f1" in cell.column.metrics)
            assert ("F1: 0 where only one of two answers is yes or no" in said) is ("f1" in cell.column.metrics)
            assert ("the paper's are Chinese" in said) is (cell.column.dataset == "crud")


def test_rows_of_the_papers_preset_differ_by_family():
    cells = prepare(read_table("overview"), ExperimentSetup(output=Path()), dry=True)
    programs = {(c.row.label, c.column.dataset): c.program for c in cells if c.row.program == "rq_rag" and c.program}
    searched = {place: program.values()["depth"] for place, program in programs.items()}
    assert (searched["RQ-RAG", "hotpotqa"], searched["RQ-RAG", "2wikimultihopqa"]) == (2, 4)


def test_a_paper_counts_its_own_models_tokens(tmp_path: Path):
    for name, counts in (("migres_table5", True), ("migres_table4", False)):
        table, setup = read_table(name), ExperimentSetup(output=tmp_path)
        differences = [paper_differences(cell, table, setup) for cell in prepare(table, setup, dry=True)]
        assert all(("knowledge tokens: words" in " ".join(each)) == counts for each in differences)


def test_programs_stay_within_their_bounds(tmp_path: Path):
    """On a question of the sample, by the embedded reader."""
    rows = ["MIGRES", "Adaptive-Note", "RA-ISF", "RQ-RAG", "BlendFilter", "ReAct", "Self-Ask", "IRCoT"]
    experiment = run_experiment(
        "sample", output=tmp_path, lm=extractive_lm(), engine="bm25", limit=1, rows=rows, num_threads=1
    )
    cells = prepare(experiment.table, ExperimentSetup(output=tmp_path, engine="bm25", limit=1, rows=rows), dry=True)
    for cell, result in zip(cells, experiment.cells, strict=True):
        most = call_bound(cell.program).calls
        assert 1 <= result.costs["lm_calls"] <= most, (cell.row.label, most, result.costs)
        assert result.failed == 0
