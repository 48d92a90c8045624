"""What a study costs at most: see `knowgap.compiling.evaluation.estimate`."""

from __future__ import annotations

from collections.abc import Sequence

import dspy

from knowgap.compiling.demonstrations.optimizers import OPTIMIZERS
from knowgap.compiling.evaluation.estimate import Estimate, estimate
from knowgap.compiling.evaluation.runner import check_examples
from knowgap.compiling.study.config import DemoConfig
from knowgap.errors import UnknownName, UsageError
from knowgap.lms.metering import Prices
from knowgap.programs.base import Program

_SHOWN_DEMOS = 4  # demonstrations that an optimizer shows at most


def estimate_study(
    program: Program,
    *,
    devset: Sequence[dspy.Example],
    trainset: Sequence[dspy.Example] | None = None,
    n_trials: int = 20,
    lm: dspy.BaseLM | None = None,
    demos: DemoConfig | None = None,
    prices: Prices | None = None,
    scoring: int = 0,
    metrics: Sequence[str] = (),
) -> Estimate:
    """Estimate what `tune` costs at most, without asking anything; `scoring` questions are asked besides."""
    demos = (demos or DemoConfig()).resolved(lm)
    train = len(trainset or ()) if demos.mode != "none" else 0
    trials = estimate(
        program,
        len(check_examples(devset, "devset")),
        metrics[:1],
        lm=lm,
        prices=prices,
        times=n_trials,
        demos=demos.max_demos if train else 0,
    )
    others = [
        estimate(program, number, names, lm=lm, prices=prices)
        for number, names in ((train, metrics[:1]), (scoring, metrics))
    ]
    return trials + others[0] + others[1]


def estimate_optimizer(
    program: Program,
    optimizer: str,
    *,
    devset: Sequence[dspy.Example],
    trainset: Sequence[dspy.Example],
    metrics: Sequence[str] = (),
    lm: dspy.BaseLM | None = None,
    prices: Prices | None = None,
    scoring: int = 0,
) -> Estimate:
    """Estimate what `compile_program` costs at most, with its default options.

    Raises:
        UnknownName: no such optimizer.
        UsageError: no questions, or an optimizer whose calls depend on what a language model writes.
    """
    if optimizer not in OPTIMIZERS:
        raise UnknownName.among("optimizer", optimizer, OPTIMIZERS)
    runs = OPTIMIZERS[optimizer].runs
    if runs is None:
        raise UsageError(
            f"what the optimizer {optimizer} asks depends on what the language model writes, and cannot be estimated: "
            "try it on a few questions first"
        )
    asked = runs(len(check_examples(trainset, "trainset")), len(check_examples(devset, "devset")))
    made = estimate(program, asked, metrics[:1], lm=lm, prices=prices, demos=_SHOWN_DEMOS)
    return made + estimate(program, scoring, metrics, lm=lm, prices=prices)
