"""Reports of a study or of evaluations, as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowgap.compiling.evaluation.provenance import Provenance
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.evaluation.statistics import Comparison, Interval, mean_interval
from knowgap.compiling.study.trials import TrialResult
from knowgap.errors import UsageError
from knowgap.reports.evaluations import COST_NAMES, EvaluationGroup, group_evaluations
from knowgap.reports.rendering import render
from knowgap.reports.sources import ReportSource, Source, read_source
from knowgap.reports.study import StudyView
from knowgap.storage.files import write_file

_NAMED = 4  # the most programs that a title names


@dataclass(frozen=True)
class ScoreRow:
    """A row of the table of scores before and after a study.

    `gain` is against the first row of the same split; `mean_only` says that scores by question are not known.
    """

    label: str
    split: str
    metric: str
    score: Interval | None
    gain: Comparison | None
    questions: int
    mean_only: bool = False


def render_report(
    source: Source,
    *,
    evaluations: dict[str, Evaluation] | None = None,
    study_name: str | None = None,
    base: str | None = None,
    cost: str = "",
    finding: str = "",
) -> str:
    """Render a study or evaluations as an HTML page.

    Args:
        source: the study in the result of `compile`, the result of `evaluate`, evaluations by label, a study's file or
            database URL, a folder that `knowgap compile` or `eval` wrote, an evaluation's JSON file, or a file of
            answers.
        evaluations: more evaluations, by label, such as those before and after a study.
        study_name: which study, if the storage keeps several.
        base: label of the evaluation that the others are compared with; by default one with "before" in its label, or
            the first.
        cost: what counts as cost in a study, a name of `knowgap.compiling.evaluation.costs.COSTS`.
        finding: the text below the title, such as the verdict of `compile`; by default, what the study chose.

    Returns:
        A self-contained HTML page, which may not load anything.

    Raises:
        UsageError: there is nothing to report at that place.
        StudyError: the study cannot be read, or there are several.
        DataError: a file of answers is damaged.
        UnknownName: no evaluation is called `base`, or no cost `cost`.
    """
    report = read_source(source, study_name=study_name, cost=cost)
    facts, artifact = report.study, report.artifact
    every = {**report.evaluations, **(evaluations or {})}
    if (study_name or cost) and facts is None:
        raise UsageError(f"a study name or a cost applies only to a study, and {report.place or 'this'} holds none")
    groups = group_evaluations(every, base=base, dev_digest=facts.dev_digest if facts else "")
    study = StudyView(facts, facts.chosen, report.questions) if facts and facts.chosen else None
    known = {group.split for group in groups}
    scores = [*_evaluation_rows(groups), *_artifact_rows(report, known)]
    if "dev" not in known:
        scores += _trial_rows(study)
    return render(
        "study.html.jinja" if facts is not None or artifact is not None else "evaluation.html.jinja",
        title=_title(report, every),
        report=report,
        origin=next((e.provenance for group in groups for e in group.evaluations.values()), Provenance()),
        groups=groups,
        study=study,
        finding=finding or (study.finding if study is not None else ""),
        scores=scores,
        cost_names=COST_NAMES,
    )


def write_report(source: Source, path: str | Path, **options: Any) -> Path:
    """Write the page of `render_report` to a file in one step, and return its path."""
    return write_file(path, render_report(source, **options))


def _title(report: ReportSource, evaluations: dict[str, Evaluation]) -> str:
    if report.study is not None:
        names = report.study.programs
        return f"{', '.join(names) if len(names) <= _NAMED else f'{len(names)} programs'}: study {report.study.name}"
    if report.artifact is not None:
        return f"{report.artifact['program']}, compiled"
    names = list(dict.fromkeys(e.provenance.program or label for label, e in evaluations.items()))
    return f"Evaluation of {', '.join(names[:6])}" + (" and others" if len(names) > 6 else "")


def _evaluation_rows(groups: Sequence[EvaluationGroup]) -> Iterator[ScoreRow]:
    for group in groups:
        intervals = group.intervals.get(group.metric, {})
        for label, evaluation in group.evaluations.items():
            gain = group.comparisons.get(label)
            yield ScoreRow(label, group.split, group.metric, intervals.get(label), gain, len(evaluation.records))


def _artifact_rows(report: ReportSource, known: set[str]) -> Iterator[ScoreRow]:
    """The scores that are saved in a compiled program, of splits without an evaluation.

    Test questions on which the study compared its trials are left out.
    """
    summaries = (report.artifact or {}).get("evaluations", {})
    for label, summary in sorted(summaries.items(), key=lambda item: item[1].get("split") != "test"):
        split = summary.get("split", "")
        seen = split == "test" and report.study is not None and summary.get("data") == report.study.dev_digest
        if split not in known and not seen and summary["scores"]:
            metric, score = next(iter(summary["scores"].items()))
            yield ScoreRow(label, split, metric, Interval(**score), None, score["n"], mean_only=True)


def _trial_rows(study: StudyView | None) -> Iterator[ScoreRow]:
    """The dev scores, by which the choice was made, of the study's starting trial and of the chosen one."""
    if study is None or study.start is None:
        return
    trials: list[tuple[str, TrialResult, Comparison | None]] = [(study.facts.describe(study.start), study.start, None)]
    if study.gain is not None:
        trials.append(("chosen", study.chosen, study.gain))
    for label, trial, gain in trials:
        interval = mean_interval(trial.scores, study.facts.seed)
        name = f"trial {trial.number} ({label})"
        yield ScoreRow(name, "dev", study.facts.metric, interval, gain, len(trial.scores))
