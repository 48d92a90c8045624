"""Run a study for a command: its settings from the options, its progress, and what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.cli.evaluate import Job, show_estimates
from knowgap.errors import UsageError

if TYPE_CHECKING:
    import dspy

    from knowgap.compiling import StudyConfig, StudyResult
    from knowgap.compiling.study.trials import TrialResult
    from knowgap.programs.base import Program


def run_study(
    job: Job,
    programs: Sequence[Program],
    folder: Path,
    options: o.StudyOptions,
    command: Sequence[str] | None = None,
    *,
    demos: str,
    teacher_lm: dspy.LM | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> StudyResult[Program]:
    """Run `knowgap.compile` on the train and dev splits, with a progress bar.

    The study is kept in `folder` if the options do not say where. `command` is the command line of this process: other
    workers run it and share the trials, so that it must lead to this call.
    """
    from knowgap.compiling import compile
    from knowgap.compiling.study.local_processes import local_workers
    from knowgap.compiling.study.run import study_label

    config = study_config(options, ranges)
    name = study_label([program.name for program in programs])
    folder.mkdir(parents=True, exist_ok=True)
    with (
        progress(f"tuning {name} on {job.dataset.name}/dev") as report,
        local_workers(options.num_workers - 1, command) as problems,
    ):
        tuned = compile(
            programs,
            job.dataset,
            job.metrics[0],
            limit=options.limit,
            n_trials=options.n_trials,
            study_name=options.study_name or f"{name}-{job.dataset.name}",
            storage=options.storage or str(folder / "study.db"),
            seed=options.seed,
            lm=job.lm,
            num_threads=options.num_threads,
            progress=report,
            config=config,
            demos=demos,
            teacher_lm=teacher_lm,
            hold_out=0,  # the caller holds them out
        ).study
        assert tuned is not None
    for problem in problems:
        remark(f"a worker stopped early, and the others ran its trials: {problem}")
    return tuned.reread() if options.num_workers > 1 else tuned  # other workers may have finished trials since


def study_config(options: o.StudyOptions, ranges: Mapping[str, tuple[float, float]] | None = None) -> StudyConfig:
    """The search settings and limits of a study, checked."""
    from knowgap.compiling import StudyConfig

    settings: dict[str, Any] = {
        "cache_dir": factories.cache_folder(),
        "prices": options.prices,
        "ranges": {**(ranges or {}), **_parse_ranges(options.ranges)},
        **factories.named_values(options.study, "--study"),
    }
    return StudyConfig(**settings)


def _parse_ranges(pieces: Sequence[str] | None) -> dict[str, tuple[float, float]]:
    """The ranges of --range, written as NAME=LOW:HIGH."""
    found: dict[str, tuple[float, float]] = {}
    for name, text in factories.named_values(pieces, "--range").items():
        try:
            low, high = map(float, text.split(":"))
        except ValueError:
            raise UsageError(f"--range {name}={text}: write it as NAME=LOW:HIGH, such as top_k=1:10") from None
        found[name] = low, high
    return found


def show_estimate(
    job: Job,
    programs: Sequence[Program],
    options: o.StudyOptions,
    demos: str,
    optimizer: str = "study",
    hold_out: int | None = None,
    teacher_lm: dspy.LM | None = None,
) -> None:
    """Ask three questions, and show what compiling would cost, with the scores before and after."""
    from knowgap.compiling import estimate_compile
    from knowgap.compiling.deployment import split_off

    devset, limit = job.dataset.questions("dev", options.limit), options.limit
    trainset, spare = job.dataset.splits["train"][:limit], 0
    if optimizer == "study":  # a study also tests its choice on some of the training questions
        spare = len(trainset) - len(split_off(devset, trainset, hold_out, options.seed)[1])
    estimates = estimate_compile(
        programs,
        devset=devset,
        trainset=trainset,
        optimizer=optimizer,
        demos=demos,
        n_trials=options.n_trials,
        lm=job.lm,
        teacher_lm=teacher_lm,
        prices=options.prices,
        scoring=2 * (len(devset) + spare + len(job.dataset.questions("test", limit))),
        metrics=job.metrics,
    )
    show_estimates(estimates, job.lm)


def show_study(tuned: StudyResult[Any]) -> None:
    """Show the programs and the best trials of a study, what they changed, and what the study cost."""
    from knowgap.compiling.evaluation.statistics import few_questions, mean_interval
    from knowgap.compiling.study.trials import rank

    complete = sorted((trial for trial in tuned.trials if trial.complete), key=lambda trial: rank(trial, tuned.cost))
    caption = few_questions([mean_interval(tuned.best.scores, tuned.seed)])
    if len(tuned.bases) > 1:
        _show_programs(tuned)
    rows = [
        [
            trial.number,
            tuned.describe(trial) + (" (chosen)" if trial.number == tuned.best.number else ""),
            f"{trial.score:.3f}",
            f"{trial.cost('lm_calls'):.1f}",
            _changes(tuned, trial),
        ]
        for trial in complete[:5]
    ]
    stopped = len(tuned.trials) - len(complete)
    title = f"the best of {len(tuned.trials)} trials" + (f" ({stopped} of them stopped early)" if stopped else "")
    show_table(title, ["trial", "kind", f"dev {tuned.metric}", "LM calls", "changed"], rows, caption=caption)
    if tuned.best.score == 0:
        remark(
            f"no trial has {tuned.metric} above 0 on the dev questions, so there is nothing to choose by: the replies "
            "may be unreadable, the index may lack the passages, or the gold answers may be worded otherwise; look at "
            "the passages and the trace of one of the questions"
        )
    importances = list(tuned.importances().items())[:6]
    if importances:
        rows = [[name, f"{share:.2f}", f"{low:.2f} to {high:.2f}"] for name, (share, low, high) in importances]
        columns = ["parameter", "importance", "with any one trial left out"]
        of = f" of {tuned.best.program}" if len(tuned.bases) > 1 else ""
        n_own = sum(trial.program == tuned.best.program for trial in complete)
        show_table(f"what decides the score, from {n_own} complete trials{of}", columns, rows)
    calls, uncounted = tuned.calls, tuned.spent.uncounted_calls
    if uncounted:
        remark(f"{uncounted} calls bypassed the meter: what they cost is unknown, and not included in any number here")
    out.print(
        f"{calls.spent} LM calls; {calls.without_sharing} without sharing answers between trials, "
        f"{calls.without_pruning} without stopping bad trials early as well; ended by: {tuned.stopped}",
        markup=False,
    )


def _show_programs(tuned: StudyResult[Any]) -> None:
    """Show what the study found of each program, and the Pareto front of score and cost over all of them."""
    found = tuned.compared()
    chosen = [" (chosen)" if row["program"] == tuned.best.program else "" for row in found]
    rows = [[f"{row['program']}{mark}", *[*row.values()][1:]] for row, mark in zip(found, chosen, strict=True)]
    caption = "no score: every trial of the program was stopped early" if any(not row[2] for row in rows) else ""
    show_table(f"{len(rows)} programs", [*found[0]], rows, caption=caption)
    front = [
        [trial.number, trial.program, f"{trial.cost(tuned.cost):.3g}", f"{trial.score:.3f}", _changes(tuned, trial)]
        for trial in tuned.front
    ]
    title = f"the best score at each price ({tuned.cost} a question), and what it takes"
    show_table(title, ["trial", "program", tuned.cost, f"dev {tuned.metric}", "changed"], front)


def _changes(tuned: StudyResult[Any], trial: TrialResult) -> str:
    """The hyperparameters, and the numbers of demonstrations, in which a trial differs from the original program."""
    program = tuned.bases[trial.program]
    before, shown = program.values(), tuned.n_demos(trial)
    changed = [f"{name}={_format_value(value)}" for name, value in trial.values.items() if value != before[name]]
    own = {name: len(cast("Any", predictor).demos) for name, predictor in program.named_predictors()}
    changed += [f"{n} demonstrations of {name}" for name, n in shown.items() if n != own[name]]
    return ", ".join(changed) or "as before"


def _format_value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
