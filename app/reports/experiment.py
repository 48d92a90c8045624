"""Reports of an experiment as an HTML page, as Markdown and as a LaTeX table.

They show the results, accuracy against cost, comparisons, and the data and models of the measurements.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from knowgap.compiling.evaluation.costs import COSTS, PER_RIGHT_ANSWER
from knowgap.compiling.evaluation.statistics import few_questions, pareto_front
from knowgap.compiling.experiments.result import ExperimentResult, Figure
from knowgap.errors import UnknownName
from knowgap.programs.trace.evidence import FATES
from knowgap.reports.charts import Chart, Point
from knowgap.reports.rendering import in_words, render
from knowgap.storage.files import write_file

_COST_COLUMNS = ("lm_calls", "tokens", *PER_RIGHT_ANSWER)


def write_experiment_report(experiment: ExperimentResult, folder: str | Path) -> list[Path]:
    """Write `experiment.md`, `experiment.tex` and `index.html`, each in one step, and return their paths."""
    texts = {
        "experiment.md": render_markdown(experiment),
        "experiment.tex": render_latex(experiment),
        "index.html": render_experiment(experiment),
    }
    return [write_file(Path(folder) / name, text) for name, text in texts.items()]


def render_experiment(experiment: ExperimentResult) -> str:
    """Render an experiment as a self-contained HTML page, which may not load anything."""
    columns = range(len(experiment.table.columns))
    return render(
        "experiment.html.jinja",
        title=experiment.table.title,
        charts=[chart for column in columns if (chart := cost_chart(experiment, column)) is not None],
        reasons=[_shared_reason(experiment, column) for column in columns],
        **_values(experiment),
    )


def render_markdown(experiment: ExperimentResult) -> str:
    """Render an experiment as Markdown: a table for each data set, comparisons with the baseline, notes, origins."""
    return render("experiment.md.jinja", only=None, **_values(experiment))


def render_latex(experiment: ExperimentResult) -> str:
    """Render an experiment as a LaTeX table with booktabs: all data sets, intervals, significance, calls and tokens."""
    values = _values(experiment)
    values["costs"] = [[name for name in costs if name in PER_RIGHT_ANSWER] for costs in values["costs"]]
    return render("experiment.tex.jinja", **values)


def table_markdown(experiment: ExperimentResult, column: int) -> str:
    """Render the rows of one data set as a Markdown table."""
    return render("experiment.md.jinja", only=column, **_values(experiment)).strip()


def _values(experiment: ExperimentResult) -> dict[str, Any]:
    notes = _difference_notes(experiment)
    return {
        "experiment": experiment,
        "table": experiment.table,
        "notes": notes,
        "origins": _origins(experiment),
        "comparisons": [(cell, figure) for cell in experiment.cells for figure in cell.figures if figure.comparison],
        "figure_text": figure_text,
        "few": {n: few for n in range(len(experiment.table.columns)) if (few := few_in_column(experiment, n))},
        "costs": [
            [name for name in _COST_COLUMNS if name not in column.metrics] for column in experiment.table.columns
        ],
        "seeds": [each.seed for each in experiment.by_seed],
        "note_number": lambda cell: notes.get(tuple(cell.differs), 0),
        "evidence": {n: e for n in range(len(experiment.table.columns)) if (e := _evidence(experiment, n))},
    }


def figure_text(figure: Figure) -> tuple[str, str]:
    """Format a figure's mean, with its deviation if there are several seeds, and interval: scores in percent."""
    if figure.ours is None:
        return "–", ""
    scale = 1.0 if figure.metric in COSTS else 100.0
    digits = 0 if figure.metric in COSTS and figure.ours.mean >= 100 else 1
    mean, low, high = (f"{value * scale:.{digits}f}" for value in (figure.ours.mean, figure.ours.low, figure.ours.high))
    return mean + (f" ± {figure.sd * scale:.{digits}f}" if figure.sd is not None else ""), f"{low}–{high}"


def few_in_column(experiment: ExperimentResult, column: int) -> str:
    """Say how little is known from the questions of a data set, if they are few; see `few_questions`."""
    figures = [figure for cell in experiment.cells if cell.column == column for figure in cell.figures]
    return few_questions([f.ours for f in figures if f.ours is not None and f.metric not in COSTS], "points")


def _difference_notes(experiment: ExperimentResult) -> dict[tuple[str, ...], int]:
    """Number the notes on how our setting differs from the paper's."""
    numbers: dict[tuple[str, ...], int] = {}
    for cell in experiment.cells:
        if cell.differs and any(figure.paper is not None for figure in cell.figures):
            numbers.setdefault(tuple(cell.differs), len(numbers) + 1)
    return numbers


def _evidence(experiment: ExperimentResult, column: int) -> tuple[list[str], dict[str, list[str]]] | None:
    """The headings, and by row the measures and the shares of gold passages by fate, in percent; None without any."""
    cells = [cell for cell in experiment.cells if cell.column == column and cell.fates]
    if not cells:
        return None
    measures = sorted({name: None for cell in cells for name in cell.evidence}, key=lambda name: "@" not in name)
    fates = [fate for fate in FATES if any(cell.fates.get(fate) for cell in cells)]
    rows: dict[str, list[str]] = {}
    for cell in cells:
        shares = [cell.evidence.get(name) for name in measures] + [cell.fates.get(fate, 0.0) for fate in fates]
        rows[experiment.table.rows[cell.row].label] = ["" if x is None else f"{100 * x:.1f}" for x in shares]
    return [*map(in_words, measures), *fates], rows


def _origins(experiment: ExperimentResult) -> list[str]:
    """Say what the figures were measured on, a line for each data set, language model and retriever."""
    lines: dict[str, None] = {}
    versions: list[str] = []
    for cell in experiment.cells:
        if (origin := cell.provenance) is None:
            continue
        index = origin.retriever
        engine = f", retriever {index['name']}" if index.get("name") else ""
        digest = f" (index {str(index['digest'])[:12]})" if index.get("digest") else ""
        fingerprint = str((origin.model_extra or {}).get("dataset_fingerprint", ""))[:12]
        asked = f"{experiment.table.columns[cell.column].title}: {cell.questions} questions of the {origin.split} split"
        lines[f"{asked}, data {fingerprint}, language model {origin.lm}{engine}{digest}"] = None
        commit = f", commit {origin.git_commit[:12]}" if origin.git_commit else ""
        versions.append(", ".join(f"{name} {version}" for name, version in origin.versions.items()) + commit)
    spent = experiment.spent
    if experiment.by_seed:
        seeds = ", ".join(str(each.seed) for each in experiment.by_seed)
        lines[
            f"Seeds {seeds}: means with the standard deviation of the seeds; intervals and tests over the questions"
        ] = None
    run = f"This run: {spent.calls} calls of the language model, {spent.cached_calls} more from its cache"
    return [*lines, f"{run}, {experiment.failed} questions failed.", *experiment.table.notes, *versions[:1]]


def _shared_reason(experiment: ExperimentResult, column: int) -> str:
    """Why nothing of a data set was run; empty if something was, or if the reasons differ."""
    cells = [c for c in experiment.cells if c.column == column and not experiment.table.rows[c.row].left_out]
    reasons = {cell.reason for cell in cells}
    return reasons.pop() if len(reasons) == 1 else ""


def cost_chart(experiment: ExperimentResult, column: int = 0, cost: str = "") -> Chart | None:
    """Draw the main score of a data set's rows, with intervals, against their mean cost per question.

    Args:
        experiment: the results.
        column: number of the data set.
        cost: a name of `knowgap.compiling.evaluation.costs.COSTS`; by default tokens, or LM calls if no tokens were
            counted. The axis is logarithmic: rows that cost nothing are left out.

    Returns:
        The chart, in which rows are numbered from the cheapest on; None if no row has a score and a cost.

    Raises:
        UnknownName: there is no such cost.
    """
    if cost and cost not in COSTS:
        raise UnknownName.among("cost", cost, COSTS)
    data = experiment.table.columns[column]
    place = next((n for n, name in enumerate(data.metrics) if name not in COSTS), None)
    cells = [cell for cell in experiment.cells if cell.column == column and not cell.reason]
    counted = cost or ("tokens" if any(cell.costs["tokens"] for cell in cells) else "lm_calls")
    if place is None:
        return None
    rows = [
        (spent, ours, experiment.table.rows[cell.row].label)
        for cell in cells
        if (spent := cell.costs.get(counted)) and (ours := cell.figures[place].ours) is not None
    ]
    if not rows:
        return None
    rows.sort(key=lambda row: (row[0], -row[1].mean))
    front = pareto_front(rows, cost=lambda row: row[0], score=lambda row: row[1].mean)
    points: list[Point] = []
    for number, row in enumerate(rows, start=1):
        spent, ours, label = row
        score, low, high = 100 * ours.mean, 100 * ours.low, 100 * ours.high
        said = f"{label}: {score:.1f} [{low:.1f}–{high:.1f}], {spent:.3g} {in_words(counted)} per question"
        points.append(Point(spent, score, "front" if row in front else "row", said, low, high, number))
    return Chart(
        caption=f"{data.title}, {max(cell.questions for cell in cells)} questions",
        points=points,
        x_name=f"{in_words(counted)} per question",
        y_name=f"{in_words(data.metrics[place])}, percent",
        line=[(spent, 100 * ours.mean) for spent, ours, _ in front],
        logarithmic=True,
        names=[label for _, _, label in rows],
        width=520,
        height=330,
    )


def render_cost_chart(experiment: ExperimentResult, column: int = 0, cost: str = "") -> str:
    """Render `cost_chart` as self-contained HTML, for a notebook; empty if there is none."""
    chart = cost_chart(experiment, column, cost)
    return render("cost_chart.html.jinja", plot=chart) if chart is not None else ""
