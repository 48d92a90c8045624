"""Estimate what compiling costs at most; see `knowgap.compiling.evaluation.estimate`."""

from __future__ import annotations

from collections.abc import Sequence

import dspy

from knowgap.compiling.demonstrations.labelled import answers_only
from knowgap.compiling.demonstrations.optimizers import OPTIMIZERS
from knowgap.compiling.evaluation.estimate import Estimate, estimate
from knowgap.compiling.evaluation.provenance import lm_name
from knowgap.compiling.evaluation.runner import check_examples
from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.run import programs_by_name, shows_demos
from knowgap.errors import UnknownName, UsageError
from knowgap.lms.metering import Prices, token_prices
from knowgap.programs.base import Program

_SHOWN_DEMOS = 4  # demonstrations that an optimizer shows at most


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
    config: StudyConfig | None = None,
    prices: Prices | None = None,
    scoring: int = 0,
    metrics: Sequence[str] = (),
) -> dict[str, Estimate]:
    """Estimate what `knowgap.compile` costs at most, without asking anything.

    Trials are assumed to have the programs' own settings; those with larger counts may take more calls. With several
    programs, each has one trial and its demonstrations; the other trials are assumed to be those of the most expensive
    one.

    Arguments are those of `compile` by the same names, with `devset` for the dev questions. `prices` are US dollars per
    million prompt and completion tokens, instead of those in DSPy's table; `scoring` is how many further questions are
    asked to score the programs before and after.

    Returns:
        The estimates by the name of the program, and for the other trials of several programs.

    Raises:
        UnknownName: no such optimizer.
        UsageError: no questions, fewer trials than programs, or an optimizer whose calls depend on what a language
            model writes.
    """
    n_dev, train, (first, *others) = len(check_examples(devset, "devset")), len(trainset), programs

    def cost(program: Program, questions: int, times: int = 1, shown: int = 0) -> Estimate:
        return estimate(program, questions, metrics[:1], lm=lm, prices=prices, times=times, demos=shown)

    def score(program: Program) -> Estimate:
        return estimate(program, scoring, metrics, lm=lm, prices=prices)

    if optimizer != "study":
        return {first.name: cost(first, _asked(optimizer, train, n_dev), shown=_SHOWN_DEMOS) + score(first)}
    programs_by_name(programs, n_trials)
    made = train if shows_demos(demos, lm, teacher_lm) else 0
    shown = (config or StudyConfig()).max_demos if made else 0

    def make(program: Program) -> Estimate:
        run = 0 if teacher_lm is None and answers_only(program) else made
        known = prices if teacher_lm is None else token_prices(lm_name(teacher_lm)) or prices
        return estimate(program, run, metrics[:1], lm=teacher_lm or lm, prices=known)

    if not others:
        return {first.name: cost(first, n_dev, n_trials, shown) + make(first) + score(first)}
    found = {each.name: cost(each, n_dev, shown=shown) + make(each) for each in programs}
    dearest = max(programs, key=lambda each: found[each.name].calls)
    rest = n_trials - len(programs)
    return found | {f"{rest} other trials": cost(dearest, n_dev, rest, shown) + score(dearest)}


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
