"""When a trial is given up: Optuna's Wilcoxon signed-rank test against the best trial so far."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from optuna import create_study
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import WilcoxonPruner
from optuna.trial import TrialState, create_trial

__all__ = ["Rival"]


class Rival:
    """The trial to beat.

    The test runs beside the study's storage, to which every report would be a transaction of its own.

    Args:
        scores: of the best complete trial, in the study's order of the questions.
        startup: questions that are asked in any case.
        p_threshold: a trial is given up where it is worse at this level.
    """

    def __init__(self, scores: Sequence[float], startup: int, p_threshold: float = 0.1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            self._pruner = WilcoxonPruner(p_threshold=p_threshold, n_startup_steps=startup)
        self._study = create_study(direction="maximize")
        self._study.add_trial(
            create_trial(value=sum(scores) / len(scores), intermediate_values=dict(enumerate(map(float, scores))))
        )

    def beats(self, scores: Sequence[float]) -> bool:
        """Whether a trial with these scores, in the same order, is to be given up."""
        so_far = create_trial(state=TrialState.RUNNING, intermediate_values=dict(enumerate(map(float, scores))))
        return self._pruner.prune(self._study, so_far)
