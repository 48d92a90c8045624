"""Compare rows with the baseline, and merge the results of a table that was run with several seeds."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import dspy

from knowgap.compiling.evaluation.costs import COSTS
from knowgap.compiling.evaluation.provenance import lm_settings
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.evaluation.statistics import mean_interval, paired_comparison
from knowgap.compiling.experiments.cells import ExperimentSetup
from knowgap.compiling.experiments.result import CellResult, ExperimentResult, Figure, correct_p_values
from knowgap.compiling.experiments.table import ExperimentTable
from knowgap.lms.metering import Usage


def seeded(setup: ExperimentSetup, seed: int) -> ExperimentSetup:
    """The setup with a seed, which language models that sample their answers (temperature above 0) are given too."""
    lms = {name: _seeded_lm(lm, seed) for name, lm in setup.lms.items()}
    return replace(setup, seed=seed, lm=setup.lm and _seeded_lm(setup.lm, seed), lms=lms)


def draws(lm: dspy.BaseLM) -> bool:
    """Whether a language model's answers depend on a seed: its temperature is above 0."""
    return bool(lm_settings(lm).get("temperature"))


def _seeded_lm(lm: dspy.BaseLM, seed: int) -> dspy.BaseLM:
    return lm.copy(seed=seed) if draws(lm) else lm


def merge_seeds(runs: Sequence[tuple[ExperimentResult, Sequence[Evaluation | None]]]) -> ExperimentResult:
    """Merge the results of several seeds.

    A figure is the mean over the questions of all seeds, with the standard deviation of the seeds' means (of a sample,
    n - 1). For its interval and its comparison with the baseline, the scores of a question that several seeds asked are
    averaged. Costs and shares are means over the seeds; failures are summed.

    Args:
        runs: the result of each seed, and the evaluations of its cells; at least two seeds.
    """
    first = runs[0][0]
    results: list[tuple[CellResult, list[Evaluation]]] = []
    for place, cell in enumerate(first.cells):
        same = [result.cells[place] for result, _ in runs]
        evaluations = [found for _, several in runs if (found := several[place]) is not None]
        merged = cell.model_copy(
            update={
                **{
                    name: sum(getattr(each, name) for each in same)
                    for name in ("failed", "unreadable", "cut", "uncounted")
                },
                **{name: _means(getattr(each, name) for each in same) for name in ("costs", "evidence", "fates")},
                "figures": [],
            }
        )
        for number, figure in enumerate(cell.figures):
            known = [ours.mean for each in same if (ours := each.figures[number].ours) is not None]
            merged.figures.append(Figure(metric=figure.metric, paper=figure.paper))
            if len(known) == len(runs):
                pooled = _by_question(evaluations, figure.metric)
                merged.figures[-1].ours = mean_interval(_mean_of_each(pooled), first.seed, [*map(len, pooled.values())])
                merged.figures[-1].sd = statistics.stdev(known)
        results.append((merged, evaluations))
    compare_with_baseline(first.table, first.baseline, results, first.seed)
    by_seed = [result for result, _ in runs]
    spent = sum((result.spent for result in by_seed), Usage())
    return first.model_copy(update={"cells": [cell for cell, _ in results], "spent": spent, "by_seed": by_seed})


def compare_with_baseline(
    table: ExperimentTable, baseline: str, results: Sequence[tuple[CellResult, Sequence[Evaluation]]], seed: int
) -> None:
    """Test every row against the baseline on each column and score, corrected for the number of rows, in place.

    `results` are the cells with their evaluations, one for each seed.
    """
    for number, column in enumerate(table.columns):
        for place, name in enumerate(column.metrics):
            if name in COSTS:
                continue
            rows = {
                table.rows[cell.row].label: (cell.figures[place], _by_question(evaluations, name))
                for cell, evaluations in results
                if cell.column == number and cell.figures[place].ours is not None
            }
            _, before = rows.pop(baseline, (None, {}))
            for figure, after in rows.values():
                if both := [question for question in before if question in after]:
                    left, right = (_mean_of_each({q: each[q] for q in both}) for each in (before, after))
                    asked = [len(after[question]) for question in both]
                    weights = asked if len({*asked}) > 1 else None
                    figure.comparison = paired_comparison(name, left, right, seed, weights)
            correct_p_values([figure for figure, _ in rows.values()])


def _by_question(evaluations: Iterable[Evaluation], metric: str) -> dict[tuple[str, str], list[float]]:
    """The scores of each question, by its id and text, in the evaluations that asked it."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for evaluation in evaluations:
        asked = {record.id: record.question for record in evaluation.records}
        for question, score in evaluation.scores(metric).items():
            scores[question, asked[question]].append(score)
    return scores


def _mean_of_each(scores: dict[tuple[str, str], list[float]]) -> list[float]:
    return [statistics.fmean(values) for values in scores.values()]


def _means(several: Iterable[dict[str, Any]]) -> dict[str, float | None]:
    """The mean of each value; None where one is not known."""
    columns: dict[str, list[float | None]] = defaultdict(list)
    for values in several:
        for name, value in values.items():
            columns[name].append(value)
    return {n: None if None in c else statistics.fmean(v for v in c if v is not None) for n, c in columns.items()}
