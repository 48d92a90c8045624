"""An experiment in words: what stands under its tables, and the whole as Markdown."""

from __future__ import annotations

from knowgap.compile.experiments.measures import is_cost
from knowgap.compile.experiments.result import CellResult, ExperimentResult, Figure

__all__ = ["SAME_PROMPTS", "difference_notes", "markdown", "origins", "shown", "table_markdown"]

SAME_PROMPTS = (
    "= marks a paper's figure whose setting is ours, as far as language model, retriever, corpus, questions, models "
    "and demonstrations tell; ≠ one whose setting is not, with the number of the note that says in what. Prompts are "
    "worded anew throughout."
)


def shown(figure: Figure) -> tuple[str, str]:
    """A figure and its interval as reports show them: scores in percent, costs as they are."""
    if figure.ours is None:
        return "–", ""
    scale = 1.0 if is_cost(figure.metric) else 100.0
    digits = 0 if is_cost(figure.metric) and figure.ours.mean >= 100 else 1
    mean, low, high = (f"{value * scale:.{digits}f}" for value in (figure.ours.mean, figure.ours.low, figure.ours.high))
    return mean, f"{low}–{high}"


def difference_notes(experiment: ExperimentResult) -> dict[tuple[str, ...], int]:
    """Numbers of the notes that say in what our setting is not the paper's, by what they say."""
    numbers: dict[tuple[str, ...], int] = {}
    for cell in experiment.cells:
        if cell.differs and any(figure.paper is not None for figure in cell.figures):
            numbers.setdefault(tuple(cell.differs), len(numbers) + 1)
    return numbers


def origins(experiment: ExperimentResult) -> list[str]:
    """What the figures were measured on, a line each."""
    found: dict[str, None] = {}
    for cell in experiment.cells:
        origin = cell.provenance
        if origin is None:
            continue
        column = experiment.table.columns[cell.column]
        index = origin.retriever
        engine = f", retriever {index['name']}" if index.get("name") else ""
        digest = f" (index {str(index['digest'])[:12]})" if index.get("digest") else ""
        fingerprint = str((origin.model_extra or {}).get("dataset_fingerprint", ""))[:12]
        found[
            f"{column.title}: {cell.questions} questions of the {origin.split} split, data {fingerprint}, "
            f"language model {origin.lm}{engine}{digest}"
        ] = None
    return list(found)


def markdown(experiment: ExperimentResult) -> str:
    """The whole experiment: a table for each data set, the comparisons with the baseline, notes and origins."""
    table = experiment.table
    parts = [f"# {table.title}", ""]
    if table.paper:
        parts += [f"{table.paper.table} of {table.paper.citation}.", ""]
    parts += [
        f"Compared with: {experiment.baseline}. * marks a difference significant at 5% (paired permutation test, "
        "Holm).",
        "",
    ]
    for number, column in enumerate(table.columns):
        parts += [f"## {column.title}", "", table_markdown(experiment, number), ""]
    parts += ["## Question by question", "", *_comparisons(experiment), ""]
    notes = difference_notes(experiment)
    if table.paper:
        parts += ["## Our setting and the paper's", "", SAME_PROMPTS, ""]
        parts += [f"{number}. {'; '.join(reasons)}" for reasons, number in notes.items()] + ([""] if notes else [])
    parts += ["## Measured on", "", *(f"- {line}" for line in origins(experiment)), ""]
    spent = experiment.spent
    parts += [
        f"- This run: {spent.calls} calls of the language model, {spent.cached_calls} more from its cache, "
        f"{experiment.failed} questions failed.",
        *(f"- {note}" for note in table.notes),
        "",
    ]
    return "\n".join(parts)


def table_markdown(experiment: ExperimentResult, column: int) -> str:
    """One data set's rows."""
    metrics = experiment.table.columns[column].metrics
    with_paper = [any(f.paper is not None for f in column_figures) for column_figures in _by_metric(experiment, column)]
    header = ["row"]
    for name, paper in zip(metrics, with_paper, strict=True):
        header += [name] + ([f"paper's {name}"] if paper else [])
    costs = [name for name in ("lm_calls", "tokens") if name not in metrics]
    header += [*costs, "failed"]
    lines = [header, ["---"] * len(header)]
    notes = difference_notes(experiment)
    for number, row in enumerate(experiment.table.rows):
        cell = experiment.cell(number, column)
        if cell is None or (cell.reason and all(f.paper is None for f in cell.figures)):
            continue
        line = [row.label]
        for figure, paper in zip(cell.figures, with_paper, strict=True):
            mean, interval = shown(figure)
            star = "*" if figure.significant else ""
            line.append(f"{mean}{star} [{interval}]" if interval else mean)
            if paper:
                line.append("" if figure.paper is None else f"{figure.paper:g} {_mark(cell, notes)}")
        if cell.costs:
            line += [*(f"{cell.costs[name]:.1f}" for name in costs), str(cell.failed)]
        else:
            line += [*("" for _ in costs), cell.reason]
        lines.append(line)
    return "\n".join("| " + " | ".join(each.replace("|", "\\|") for each in line) + " |" for line in lines)


def _mark(cell: CellResult, notes: dict[tuple[str, ...], int]) -> str:
    if cell.reason:
        return "(not run)"
    return f"≠{notes[tuple(cell.differs)]}" if cell.differs else "="


def _by_metric(experiment: ExperimentResult, column: int) -> list[tuple[Figure, ...]]:
    cells = [cell for cell in experiment.cells if cell.column == column]
    return list(zip(*(cell.figures for cell in cells), strict=True))


def _comparisons(experiment: ExperimentResult) -> list[str]:
    lines = ["| row | data | metric | difference [95% interval] | better | worse | p | p (Holm) |", "|" + " --- |" * 8]
    for cell in experiment.cells:
        for figure in cell.figures:
            pair = figure.comparison
            if pair is None or is_cost(figure.metric):
                continue
            label, data = experiment.table.rows[cell.row].label, experiment.table.columns[cell.column].title
            gain, low, high = (f"{100 * value:+.1f}" for value in (pair.difference, pair.low, pair.high))
            lines.append(
                f"| {label} | {data} | {figure.metric} | {gain} [{low}, {high}] | {pair.wins} | {pair.losses} | "
                f"{pair.p_value:.3f} | {figure.p_corrected:.3f} |"
            )
    return lines if len(lines) > 2 else ["Nothing was compared."]
