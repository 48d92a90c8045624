"""The page, the Markdown and the cost charts of an experiment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from experiment_helpers import logging_lm, make_table, write_data
from page_reader import Page, read_page

from knowgap.compiling.evaluation.statistics import Interval
from knowgap.compiling.experiments.result import CellResult, ExperimentResult, Figure
from knowgap.compiling.experiments.runner import run_experiment
from knowgap.errors import UnknownName
from knowgap.reports.experiment import (
    cost_chart,
    render_cost_chart,
    render_experiment,
    render_latex,
    render_markdown,
    table_markdown,
    write_experiment_report,
)

HOSTILE = "<script>alert(1)</script> a|b"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experiment")
    given = {"output": folder / "out", "num_threads": 2, "lm": logging_lm(folder / "log"), **write_data(folder)}
    return given, run_experiment(make_table(), **given)


def test_the_page_shows_results_beside_the_papers_and_stands_alone(world, tmp_path: Path):
    markdown, latex, html = write_experiment_report(world[1], tmp_path / "new")
    page = read_page(html.read_text(encoding="utf-8"))
    assert "Table 9 of A Paper <of> 2024." in page.text
    rows = {row[0].split()[0]: " ".join(row) for row in page.table("houses")[2:]}
    assert rows["memory"].startswith("memory 0.0 0.0–0.0 paper 10 ≠ 1 0.0 0.0–0.0 paper 20.5 ≠ 1 1.0 1.0–1.0")
    assert rows["retrieval"].startswith("retrieval 100.0 ▲ 100.0–100.0 paper 90 ≠ 2 100.0 ▲")
    assert (
        rows["trained"]
        == "trained not run: needs a trained model – paper 50 (not run) – paper 60 (not run) – paper 1 (not run)"
    )
    assert "houses 8 questions" in page.table("houses")[0]
    compared = page.table("difference in points")[1]
    assert compared[:7] == ["retrieval", "houses", "exact match", "+100.0 [+100.0, +100.0]", "8", "0", "0"]
    text = markdown.read_text(encoding="utf-8")
    assert (
        "| retrieval | 100.0* [100.0–100.0] (paper 90 ≠2) | 100.0* [100.0–100.0] | 1.0 [1.0–1.0] (paper 1 ≠2) |" in text
    )
    assert "| trained | – (paper 50, not run) |" in text
    assert "This run: 16 calls of the language model" in text
    assert table_markdown(world[1], 0) in text
    assert {path.name for path in (tmp_path / "new").iterdir()} == {markdown.name, latex.name, html.name}
    assert latex.read_text(encoding="utf-8") == render_latex(world[1])
    same = run_experiment(make_table(), as_paper=["corpus", "questions"], **world[0])
    assert "paper 90 =" in read_page(render_experiment(same)).text
    assert "(paper 90 =)" in render_markdown(same)


def test_failures_and_reasons_stand_in_their_cells_and_all_text_is_text():
    columns = [{"dataset": name, "label": name + HOSTILE, "metrics": ["f1"]} for name in "ab"]
    rows = [{"label": name + HOSTILE, "program": "rag", "group": HOSTILE} for name in ("one", "two")]
    table = make_table(title=HOSTILE, notes=[HOSTILE], columns=columns, rows=rows, baseline="", paper=None)
    scored = Figure(metric="f1", ours=Interval(mean=0.5, low=0.1, high=0.9, n=4))
    free = {"tokens": 0.0, "lm_calls": 0.0}
    cells = [
        CellResult(row=0, column=0, questions=4, failed=1, unreadable=2, cut=3, figures=[scored], costs=free),
        *(
            CellResult(row=row, column=column, reason=reason, figures=[Figure(metric="f1")])
            for row, column, reason in ((0, 1, "no data"), (1, 0, "needs a train split"), (1, 1, "no data"))
        ),
    ]
    experiment = ExperimentResult(table=table, baseline=HOSTILE, cells=cells)
    html = render_experiment(experiment)
    page = read_page(html)
    group, first, second = page.tables[0][2:]
    assert group == [HOSTILE]
    assert first == ["one" + HOSTILE, "50.0 10.0–90.0 1 of 4 failed replies: 2 unreadable, 3 cut off", "–"]
    assert second == ["two" + HOSTILE, "– needs a train split", "–"]
    seeds = experiment.model_copy(update={"by_seed": [experiment, experiment]})  # whose failures are summed
    assert "1 of 8 failed" in read_page(render_experiment(seeds)).text
    assert page.text.count("no data") == 1  # beside the name of the data set
    assert not page.having("figure", "plot")  # nothing has a cost
    assert render_cost_chart(experiment) == ""
    assert "<script" not in html
    assert page.text.count(HOSTILE) == 9  # title, baseline, two data sets, group, two rows, two notes
    assert f"a{HOSTILE}: few questions (4): scores are known to within ±40 points only" in page.text
    assert "| one&lt;script>alert(1)&lt;/script> a\\|b |" in render_markdown(experiment)
    assert "| 1; replies: 2 unreadable, 3 cut off |" in render_markdown(experiment)
    assert "Few questions (4): scores are known to within ±40 points only." in table_markdown(experiment, 0)
    assert ",4,1,2,3," in experiment.csv()


def test_the_chart_orders_rows_by_cost_and_joins_those_that_nothing_cheaper_beats():
    def cell(row: int, cost: float, score: float) -> CellResult:
        figure = Figure(metric="f1", ours=Interval(mean=score, low=score - 0.1, high=score + 0.1, n=8))
        return CellResult(row=row, column=0, questions=8, figures=[figure], costs={"tokens": cost, "lm_calls": 1.0})

    rows = [{"label": label, "program": "rag"} for label in ("dear", "free", "middling", "cheap")]
    table = make_table(rows=rows, columns=[{"dataset": "d", "metrics": ["lm_calls", "f1"]}], baseline="", paper=None)
    cells = [cell(0, 100, 0.3), cell(1, 0, 0.9), cell(2, 10, 0.2), cell(3, 1, 0.25)]
    for each in cells:
        each.figures.insert(0, Figure(metric="lm_calls", ours=Interval(mean=1, low=1, high=1, n=8)))
    experiment = ExperimentResult(table=table, baseline="dear", cells=cells)
    chart = cost_chart(experiment)
    assert chart is not None
    assert chart.names == ["cheap", "middling", "dear"]  # what costs nothing has no place on a logarithmic axis
    assert [point.kind for point in chart.points] == ["front", "row", "front"]
    assert chart.line == [(1, 25), (100, pytest.approx(30))]
    assert (chart.caption, chart.x_name, chart.y_name) == ("d, 8 questions", "tokens per question", "f1, percent")
    html = render_cost_chart(experiment, cost="lm_calls")
    drawn = Page(html)
    assert len(drawn.having("g", "row")) + len(drawn.having("g", "front")) == 4 + 2  # and the legend
    assert "free: 90.0 [80.0–100.0], 1 LM calls per question" in drawn.text
    with pytest.raises(UnknownName, match="'money'"):
        cost_chart(experiment, cost="money")


def test_the_latex_table_has_intervals_marks_and_costs_and_escapes_what_it_shows(world):
    given, found = world
    text = render_latex(found)
    assert r"\caption{Tiny \& quick." in text
    body = text.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
    rows = [row.split(" & ") for row in body.replace("\n", " ").split(r"\\\addlinespace[2pt]")][:-1]
    assert r"\begin{tabular}{lrrrrr}" in text
    memory, retrieval, trained = [[cell.strip() for cell in row][-5:] for row in rows]
    assert memory[0] == r"\shortstack[r]{0.0\\{\tiny [0.0--0.0]}}"
    assert retrieval[0] == r"\shortstack[r]{100.0$^{*}$\\{\tiny [100.0--100.0]}}"
    assert (memory[3], retrieval[3], trained[3]) == ("?", "1", "--")  # calls per right answer: memory has none
    for hostile in (HOSTILE, r"\input{x} 100%_#~^"):
        rows = [{"label": hostile, "program": "rag"}]
        table = run_experiment(make_table(rows=rows, baseline="", paper=None, title=hostile), **given)
        assert not re.search(r"\\input|(?<!\\)[%_#~]x?(?=\s*&)", render_latex(table).partition(r"\toprule")[2])
