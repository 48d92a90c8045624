"""What a study would cost, before anything is spent: see `knowgap.compiling.evaluation.estimate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dspy

from knowgap.compiling.demonstrations.optimizers import OPTIMIZERS
from knowgap.compiling.evaluation.estimate import Estimate, measure_question
from knowgap.compiling.evaluation.metrics import JUDGING_CALLS
from knowgap.compiling.evaluation.runner import check_examples
from knowgap.compiling.study.config import DemoConfig, StudyConfig
from knowgap.compiling.study.search.space import SearchSpace
from knowgap.errors import UnknownName, UsageError
from knowgap.programs.base import Program
from knowgap.programs.trace.usage import Prices

__all__ = ["estimate_optimizer", "estimate_study"]

_SETTINGS = 4  # settings that are tried out
_SHOWN_DEMOS = 4  # demonstrations that an optimizer shows at most


def estimate_study(
    program: Program,
    *,
    devset: Sequence[dspy.Example],
    trainset: Sequence[dspy.Example] | None = None,
    n_trials: int = 20,
    lm: dspy.BaseLM | None = None,
    study: StudyConfig | None = None,
    demos: DemoConfig | None = None,
    prices: Prices | None = None,
    seed: int = 0,
    scoring: int = 0,
    metrics: Sequence[str] = (),
) -> Estimate:
    """Estimate what `tune` would cost with a language model, without asking it anything.

    The embedded reader answers a few dev questions under the program's settings and under some drawn from the search
    space; calls and tokens are counted and scaled up. It takes other paths than a language model would, and
    demonstrations are taken to be half of `demos.max_demos` examples, each as long as the prompt itself.

    Args:
        program: stays as it is.
        devset: the questions of every trial.
        trainset: the questions that demonstrations are bootstrapped from.
        n_trials: trials in all.
        lm: whose prices count; none are known without it.
        study: how the study searches.
        demos: whether trials choose demonstrations, and how these are made.
        prices: US dollars per million prompt and completion tokens; DSPy's table where absent.
        seed: of the draws.
        scoring: questions that are asked besides, for scores before and after.
        metrics: names of the metrics of these questions, the first of which is that of the trials; those that judge
            answers by a language model cost calls as well.

    Raises:
        UsageError: no questions, or a program that fails on all of them.
    """
    ids = check_examples(devset, "devset")
    demos = (demos or DemoConfig()).resolved(lm)
    settings = _settings(program, study, seed) if n_trials > 1 else [program]
    cost = measure_question(program, settings, devset, ids, seed)
    train = len(trainset or ()) if demos.mode != "none" else 0
    asked = n_trials * len(ids) + train
    judging = [JUDGING_CALLS.get(name, 0) for name in metrics]
    judged = asked * sum(judging[:1]) + scoring * sum(judging)
    return cost.estimate(
        len(ids),
        judged,
        lm=lm,
        prices=prices,
        trials=n_trials,
        bootstrapping=train,
        scoring=scoring,
        longer=1 + demos.max_demos / 2 if train else 1,
    )


def _settings(program: Program, study: StudyConfig | None, seed: int) -> Iterator[Program]:
    """The program as it is, and with settings drawn from the search space."""
    from optuna import create_study
    from optuna.samplers import RandomSampler

    from knowgap.compiling.evaluation.quiet import quiet

    yield program
    space = SearchSpace(program, study)
    with quiet():
        draws = create_study(sampler=RandomSampler(seed=seed))
    for _ in range(_SETTINGS - 1):
        yield program.deepcopy().configure(**space.suggest(draws.ask())[0])


def estimate_optimizer(
    program: Program,
    optimizer: str,
    *,
    devset: Sequence[dspy.Example],
    trainset: Sequence[dspy.Example],
    metrics: Sequence[str] = (),
    lm: dspy.BaseLM | None = None,
    prices: Prices | None = None,
    seed: int = 0,
    scoring: int = 0,
) -> Estimate:
    """Estimate what `compile_program` would cost at most, with its default options; arguments as for `estimate_study`.

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
    ids, train = check_examples(devset, "devset"), len(check_examples(trainset, "trainset"))
    cost = measure_question(program, [program], devset, ids, seed)
    bootstrapping = runs(train, len(ids))
    judging = [JUDGING_CALLS.get(name, 0) for name in metrics]
    judged = bootstrapping * sum(judging[:1]) + scoring * sum(judging)
    return cost.estimate(
        len(ids),
        judged,
        lm=lm,
        prices=prices,
        trials=0,
        bootstrapping=bootstrapping,
        scoring=scoring,
        longer=1 + _SHOWN_DEMOS / 2,
    )
