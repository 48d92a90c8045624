"""Estimate what compiling costs, from three questions; see `knowgap.compiling.evaluation.estimate`."""

from __future__ import annotations

from collections.abc import Sequence

import dspy

from knowgap.compiling.demonstrations.labelled import answers_only
from knowgap.compiling.demonstrations.optimizers import OPTIMIZERS
from knowgap.compiling.evaluation.estimate import Estimate, estimate
from knowgap.compiling.run import Run
from knowgap.compiling.study.run import programs_by_name, shows_demos
from knowgap.errors import UnknownName, UsageError
from knowgap.lms.metering import Prices
from knowgap.programs.base import Program


def estimate_compile(
    programs: Sequence[Program],
    *,
    devset: Sequence[dspy.Example],
    trainset: Sequence[dspy.Example] = (),
    optimizer: str = "study",
    demos: str = "auto",
    n_trials: int = 20,
    lm: dspy.BaseLM | None = None,
    teacher_lm: dspy.BaseLM | None = None,
    prices: Prices | None = None,
    scoring: int = 0,
    metrics: Sequence[str] = (),
) -> dict[str, Estimate]:
    """Estimate what `knowgap.compile` costs: three questions are asked of each program, as it is.

    Trials with larger counts may take more calls, and trials that are stopped early fewer. Of several programs, the
    most expensive one is assumed to be studied and scored after one trial of each.

    Arguments are those of `compile` by the same names, with `devset` for the dev questions. `prices` are US dollars per
    million prompt and completion tokens, instead of those in DSPy's table; `scoring` is how many further questions are
    asked to score the programs before and after.

    Returns:
        The estimates by the name of the program.

    Raises:
        UnknownName: no such optimizer.
        UsageError: no questions, fewer trials than programs, or an optimizer whose calls depend on what a language
            model writes.
    """
    n_dev, n_train, named = len(devset), len(trainset), {program.name: program for program in programs}
    if optimizer != "study":
        asked, made = _asked(optimizer, n_train, n_dev), 0
    else:
        programs_by_name(programs, n_trials)
        asked, made = n_dev, n_train if shows_demos(demos, lm, teacher_lm) else 0
    one = {name: estimate(each, devset, metrics or "f1", run=Run(lm=lm), prices=prices) for name, each in named.items()}
    found = {name: each.scaled(asked) for name, each in one.items()}
    for name, program in named.items() if made else ():
        if teacher_lm is not None:
            found[name] += estimate(program, trainset, metrics[:1] or "f1", run=Run(lm=teacher_lm), prices=prices)
        elif not answers_only(program):
            found[name] += one[name].scaled(made)
    dearest = max(one, key=lambda name: one[name].calls)
    rest = (n_trials - len(programs)) * n_dev if optimizer == "study" else 0
    found[dearest] += one[dearest].scaled(rest + scoring)
    return found


def _asked(optimizer: str, train: int, dev: int) -> int:
    """How often an optimizer runs the program at most."""
    if optimizer == "calibrate":
        return 0
    if optimizer not in OPTIMIZERS:
        raise UnknownName.among("optimizer", optimizer, OPTIMIZERS)
    runs = OPTIMIZERS[optimizer].runs
    if runs is None:
        raise UsageError(
            f"what the optimizer {optimizer} asks depends on what the language model writes, and cannot be estimated: "
            "try it on a few questions first"
        )
    return runs(train, dev)
