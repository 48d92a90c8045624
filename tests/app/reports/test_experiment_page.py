"""The page, the Markdown and the plots of an experiment."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from experiment_helpers import logging_lm, make_table, write_data

from knowgap.compile.experiments.runner import run_experiment
from knowgap.errors import UnknownName
from knowgap.reports.cost_plot import Point, cost_plot, plot
from knowgap.reports.experiment import page, write_experiment_report


@pytest.fixture
def world(tmp_path: Path):
    return {"output": tmp_path / "out", "num_threads": 2, **write_data(tmp_path)}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "asked.jsonl"


def test_the_page_is_well_formed_and_needs_nothing_else(world, log: Path):
    text = page(run_experiment(make_table(), lm=logging_lm(log), **world))
    root = ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    elements = list(root.iter())
    assert {"table", "svg", "style"} <= {element.tag for element in elements}
    assert not {"script", "link", "img", "iframe"} & {element.tag for element in elements}
    targets = [e.attrib[name] for e in elements for name in ("href", "src") if name in e.attrib]
    assert targets
    assert all(target.startswith("#note-") for target in targets)
    assert {target[1:] for target in targets} <= {e.attrib["id"] for e in elements if "id" in e.attrib}
    assert "url(" not in text
    assert "http" not in text
    assert "Tiny &amp; quick" in text
    assert "A Paper &lt;of&gt; 2024" in text
    assert "▲" in text


def test_page_and_markdown_mark_the_papers_figures(world, log: Path):
    experiment = run_experiment(make_table(), lm=logging_lm(log), **world)
    markdown, html = write_experiment_report(experiment, world["output"])
    text = markdown.read_text(encoding="utf-8")
    assert "| retrieval | 100.0* [100.0–100.0] | 90 ≠" in text
    assert "| trained | – | 50 (not run)" in text
    assert "paper 90 ≠" in html.read_text(encoding="utf-8")
    same = run_experiment(make_table(), lm=logging_lm(log), as_paper=["corpus", "questions"], **world)
    assert "paper 90 =" in page(same)
    assert "paper 50 (not run)" in page(same)


def test_the_plot_joins_what_nothing_cheaper_beats():
    points = [
        Point("a", 1, 10, 5, 15),
        Point("b", 10, 8, 5, 15),
        Point("c", 100, 30, 20, 40),
        Point("free", 0, 1, 1, 1),
    ]
    drawn = ET.fromstring(plot(points, "tokens", "f1"))
    kinds = {g.findtext("title", "").partition(":")[0]: g.attrib["class"] for g in drawn.iter("g")}
    assert kinds == {"a": "best", "b": "dot", "c": "best"}
    assert plot([], "tokens", "f1") == ""
    assert ET.fromstring(plot(points[:1], "tokens", "f1")).find("polyline") is None


def test_a_plot_stands_alone_against_any_cost(world, log: Path):
    experiment = run_experiment(make_table(), lm=logging_lm(log), **world)
    drawn = ET.fromstring(cost_plot(experiment, cost="knowledge_tokens"))
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    titles = [title.text or "" for title in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["retrieval: 100.0 [100.0–100.0], 14 knowledge tokens per question"]  # memory reads nothing
    assert "tokens per question" in cost_plot(experiment)
    assert "<style>" not in cost_plot(experiment, style="")
    with pytest.raises(UnknownName, match="'money'"):
        cost_plot(experiment, cost="money")
