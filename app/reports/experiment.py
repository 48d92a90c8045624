"""An experiment as one page that needs no network: table, plots, comparisons, and what it was measured on."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from knowgap.compile.experiments.result import CellResult, ExperimentResult, Figure
from knowgap.reports.cost_plot import MARKS, cost_plot
from knowgap.reports.experiment_markdown import SAME_PROMPTS, difference_notes, markdown, origins, shown
from knowgap.retrieval.index.files import write_file

__all__ = ["page", "write_experiment_report"]

_STYLE = """
:root{color-scheme:light dark;--ink:#1d2329;--soft:#5d6873;--line:#d9dee3;--ground:#fff;--band:#f4f6f8;--mark:#0b6e99;
--up:#17753f;--down:#b3372b}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ec;--soft:#9aa5b0;--line:#38424c;--ground:#15191d;--band:#1e242a;
--mark:#5cb8de;--up:#5ec58a;--down:#ee8479}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 6px}
h2{font-size:1.1rem;margin:38px 0 10px}
p,ol,ul{max-width:80ch}.soft{color:var(--soft)}
.wide{overflow-x:auto;border:1px solid var(--line);border-radius:8px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:7px 12px;text-align:right;vertical-align:top;white-space:nowrap;border-top:1px solid var(--line)}
thead th{border-top:0;background:var(--band);font-weight:600}
th:first-child,td:first-child{text-align:left;white-space:normal;min-width:9.5rem;max-width:16rem}
tbody th{font-weight:500;position:sticky;left:0;background:var(--ground)}
tr.group th{background:var(--band);color:var(--soft);font-weight:600;position:static}
.data{border-left:1px solid var(--line)}
td small,th small{display:block;color:var(--soft);font-size:.78rem;font-weight:400}
.paper{color:var(--mark)!important}.up{color:var(--up)}.down{color:var(--down)}.base{font-weight:600}
sup{line-height:0}a{color:var(--mark)}thead small{max-width:22rem;white-space:normal}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,540px),1fr));gap:20px}
figure{margin:0;max-width:860px;overflow-x:auto;border:1px solid var(--line);border-radius:8px;padding:12px}
figcaption{font-weight:600;margin-bottom:6px}
svg{width:100%;min-width:520px;height:auto;display:block}thead .data[colspan]{text-align:left}
@media(max-width:600px){main{padding:18px 12px 40px}th,td{padding:6px 8px}
th:first-child,td:first-child{min-width:7rem;max-width:8.5rem}}
"""


def write_experiment_report(experiment: ExperimentResult, folder: str | Path) -> list[Path]:
    """Write `experiment.md` and `index.html`; each is complete, or as it was before.

    Returns:
        The two files.
    """
    target = Path(folder)
    return [
        write_file(target / "experiment.md", markdown(experiment)),
        write_file(target / "index.html", page(experiment)),
    ]


def page(experiment: ExperimentResult) -> str:
    """The page, as well-formed HTML with its style inside."""
    table = experiment.table
    source = f'<p class="soft">{escape(f"{table.paper.table} of {table.paper.citation}.")}</p>' if table.paper else ""
    body = [
        f"<h1>{escape(table.title)}</h1>{source}",
        "<p>Scores in percent with 95% bootstrap intervals. Compared question by question with "
        f'<b>{escape(experiment.baseline)}</b>: <span class="up">▲ better</span> or <span class="down">▼ worse</span>, '
        "significant at 5% (paired permutation test, corrected for the number of rows by Holm's method).</p>",
        _main_table(experiment),
        _plots(experiment),
        _comparisons(experiment),
        _notes(experiment),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{escape(table.title)}</title><style>{_STYLE}{MARKS}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _main_table(experiment: ExperimentResult) -> str:
    table, notes = experiment.table, difference_notes(experiment)
    top, names = "<th></th>", "<th></th>"
    for number, column in enumerate(table.columns):
        reasons = {
            cell.reason for cell in experiment.cells if cell.column == number and not table.rows[cell.row].left_out
        }
        reason = f"<small>{escape(reasons.pop())}</small>" if len(reasons) == 1 and "" not in reasons else ""
        top += f'<th class="data" colspan="{len(column.metrics)}">{escape(column.title)}{reason}</th>'
        names += "".join(
            f"<th{_edge(place)}>{escape(name.replace('_', ' ').removeprefix('probe:'))}</th>"
            for place, name in enumerate(column.metrics)
        )
    width = 1 + sum(len(column.metrics) for column in table.columns)
    rows, group = [], ""
    for number, row in enumerate(table.rows):
        cells = [experiment.cell(number, c) for c in range(len(table.columns))]
        if not any(cells):
            continue
        if row.group != group:
            group = row.group
            rows.append(f'<tr class="group"><th colspan="{width}">{escape(group)}</th></tr>')
        reason = row.left_out and f"<small>not run: {escape(row.left_out)}</small>"
        base = ' class="base"' if row.label == experiment.baseline else ""
        rows.append(
            f"<tr><th{base}>{escape(row.label)}{reason}</th>"
            + "".join(_cell(experiment, cell, notes) for cell in cells if cell is not None)
            + "</tr>"
        )
    head = f"<thead><tr>{top}</tr><tr>{names}</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>{"".join(rows)}</tbody></table></div>'


def _edge(place: int) -> str:
    return ' class="data"' if place == 0 else ""


def _cell(experiment: ExperimentResult, cell: CellResult, notes: dict[tuple[str, ...], int]) -> str:
    parts = []
    shared = {
        c.reason for c in experiment.cells if c.column == cell.column and not experiment.table.rows[c.row].left_out
    }
    for place, figure in enumerate(cell.figures):
        mean, interval = shown(figure)
        text = f"{mean}{_arrow(figure)}"
        if interval:
            text += f"<small>{interval}</small>"
        if figure.paper is not None:
            number = notes.get(tuple(cell.differs))
            mark = (
                " (not run)"
                if cell.reason
                else f' ≠<sup><a href="#note-{number}">{number}</a></sup>'
                if number
                else " ="
            )
            text += f'<small class="paper">paper {figure.paper:g}{mark}</small>'
        if place == 0 and cell.failed:
            text += f'<small class="down">{cell.failed} of {cell.questions} failed</small>'
        if place == 0 and cell.reason and len(shared) > 1 and not experiment.table.rows[cell.row].left_out:
            text += f"<small>{escape(cell.reason)}</small>"
        parts.append(f"<td{_edge(place)}>{text}</td>")
    return "".join(parts)


def _arrow(figure: Figure) -> str:
    pair = figure.comparison
    if pair is None or not figure.significant:
        return ""
    kind, sign = ("up", "▲") if pair.difference > 0 else ("down", "▼")
    tip = f"{100 * pair.difference:+.1f} [{100 * pair.low:+.1f}, {100 * pair.high:+.1f}], p = {figure.p_corrected:.3f}"
    return f' <span class="{kind}" title={quoteattr(tip)}>{sign}</span>'


def _plots(experiment: ExperimentResult) -> str:
    figures = []
    for number, column in enumerate(experiment.table.columns):
        drawn = cost_plot(experiment, number, style="")
        if drawn:
            figures.append(f"<figure><figcaption>{escape(column.title)}</figcaption>{drawn}</figure>")
    if not figures:
        return ""
    return (
        "<h2>Accuracy against cost</h2><p>Up is better, left is cheaper. The line joins the rows that no cheaper one "
        f'beats; bars are 95% intervals.</p><div class="plots">{"".join(figures)}</div>'
    )


def _comparisons(experiment: ExperimentResult) -> str:
    rows = []
    for cell in experiment.cells:
        for figure in cell.figures:
            pair = figure.comparison
            if pair is None:
                continue
            row, column = experiment.table.rows[cell.row].label, experiment.table.columns[cell.column].title
            values = [
                f"{100 * pair.difference:+.1f} <small>{100 * pair.low:+.1f} to {100 * pair.high:+.1f}</small>",
                f"{pair.wins}",
                f"{pair.losses}",
                f"{pair.ties}",
                f"{pair.p_value:.3f}",
                f"{figure.p_corrected:.3f}",
            ]
            cells = "".join(f"<td>{value}</td>" for value in values)
            rows.append(
                f"<tr><th>{escape(row)}</th><td>{escape(column)}</td><td>{escape(figure.metric)}</td>{cells}</tr>"
            )
    if not rows:
        return ""
    names = ["row", "data", "metric", "difference", "better", "worse", "equal", "p", "p (Holm)"]
    head = "".join(f"<th>{name}</th>" for name in names)
    return (
        f"<h2>Question by question against {escape(experiment.baseline)}</h2>"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _notes(experiment: ExperimentResult) -> str:
    parts = []
    notes = difference_notes(experiment)
    if experiment.table.paper:
        items = "".join(f'<li id="note-{n}">{escape("; ".join(reasons))}</li>' for reasons, n in notes.items())
        parts.append(
            f"<h2>Our setting and the paper's</h2><p>{escape(SAME_PROMPTS)}</p>" + (items and f"<ol>{items}</ol>")
        )
    spent = experiment.spent
    run = (
        f"This run asked the language model {spent.calls} times ({spent.cached_calls} more answers came from its cache)"
        f"; {experiment.failed} questions failed."
    )
    lines = "".join(f"<li>{escape(line)}</li>" for line in [*origins(experiment), run, *experiment.table.notes])
    origin = next((cell.provenance for cell in experiment.cells if cell.provenance), None)
    made = ", ".join(f"{name} {version}" for name, version in origin.versions.items()) if origin else ""
    commit = f", commit {origin.git_commit[:12]}" if origin and origin.git_commit else ""
    return "".join(parts) + f'<h2>Measured on</h2><ul>{lines}</ul><p class="soft">{escape(made + commit)}</p>'
