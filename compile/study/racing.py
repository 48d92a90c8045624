"""Which programs of a study still get trials: successive halving."""

from __future__ import annotations

import math
from collections.abc import Sequence

from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.trials import TrialResult, rank


def in_race(
    programs: Sequence[str],
    trials: Sequence[TrialResult],
    n_first: int,
    n_trials: int,
    limits: StudyConfig | None = None,
) -> list[str]:
    """The programs that still get trials, best first.

    First, every program is tried with its defaults and with the settings that it came with. Then the better half stays,
    but at least two. The remaining trials are divided into equal rounds, as many as are needed to reach one program in
    the last round by halving after each. TPE alone abandons weak programs too slowly: it needs about ten trials of each
    program before it prefers any.

    Programs are ranked by their best trials so far. A trial within the price comes before all that are not. A trial
    that was stopped early is ranked by its mean difference from the best complete trial on the questions that both were
    asked.

    Source: Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization" (AISTATS
    2016), after Karnin et al. (ICML 2013).

    `trials` are the finished ones, of which the first `n_first` have the defaults and the programs' own settings;
    `n_trials` is how many there will be. `limits` says what a question may cost.
    """
    if len(trials) < n_first:
        return [*programs]
    left = _ranked(programs, trials[:n_first], limits)[: max(2, math.ceil(len(programs) / 2))]
    n_cuts = math.ceil(math.log2(len(left)))
    for number in range(1, n_cuts + 1):
        end = n_first + math.ceil(number * (n_trials - n_first) / (n_cuts + 1))
        if len(trials) < end:
            break
        left = _ranked(left, trials[:end], limits)[: math.ceil(len(left) / 2)]
    return left


def _ranked(programs: Sequence[str], trials: Sequence[TrialResult], limits: StudyConfig | None) -> list[str]:
    """The programs by their best trials, best first; one without a trial comes last."""
    best = min((trial for trial in trials if trial.complete), key=rank, default=None)

    def place(trial: TrialResult) -> tuple[bool, float, float, float]:
        score = trial.score
        if not trial.complete and best is not None:
            score = best.score + trial.score - sum(best.scores[: len(trial.scores)]) / len(trial.scores)
        within = limits is None or limits.permits(trial.costs)
        return not within, -round(score, 12), trial.cost("lm_calls"), trial.cost("tokens")

    places = {name: min((place(t) for t in trials if t.program == name), default=None) for name in programs}
    return sorted(programs, key=lambda name: (places[name] is None, places[name]))
