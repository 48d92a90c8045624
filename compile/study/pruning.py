"""When a trial is stopped early: if it does worse than the best one so far, or has little left to gain."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from statistics import NormalDist, fmean, pvariance

from optuna import create_study
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import WilcoxonPruner
from optuna.trial import TrialState, create_trial

_P_THRESHOLD = 0.1  # the significance level of the test
_LEAST_GAIN = 0.01  # in the mean score of all questions


class Pruner:
    """Compares a trial with the best complete one.

    A trial is pruned for one of two reasons. It does worse, by Optuna's Wilcoxon signed-rank test over the questions
    that both were asked. Or its expected gain is less than 0.01: most settings answer most questions alike,
    and the test never calls those worse.

    The test runs on a study in memory: in the storage, every score would be a transaction.

    Args:
        scores: the scores of the best complete trial, in the study's order of the questions; each from 0 to 1.
        startup: number of questions before which no trial is pruned.
    """

    def __init__(self, scores: Sequence[float], startup: int):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            self._pruner = WilcoxonPruner(p_threshold=_P_THRESHOLD, n_startup_steps=startup)
        self._scores, self._startup = [*map(float, scores)], startup
        self._study = create_study(direction="maximize")
        self._study.add_trial(create_trial(value=fmean(scores), intermediate_values=dict(enumerate(self._scores))))

    def should_prune(self, scores: Sequence[float]) -> bool:
        """Whether to stop a trial with these scores, in the same order."""
        if len(scores) >= self._startup and self.expected_gain(scores) < _LEAST_GAIN:
            return True
        so_far = create_trial(state=TrialState.RUNNING, intermediate_values=dict(enumerate(map(float, scores))))
        return self._pruner.prune(self._study, so_far)

    def expected_gain(self, scores: Sequence[float]) -> float:
        """The expected amount by which the trial's mean score will exceed the best one's; a shortfall counts as 0.

        The sum of the differences still to come is assumed to be normal. Its mean and variance are those of the
        differences so far, with one win and one loss added, so that there is doubt even if all have been ties; the
        variance includes the uncertainty of the mean.
        """
        seen, left = len(scores), len(self._scores) - len(scores)
        differences = [float(score) - best for score, best in zip(scores, self._scores, strict=False)]
        doubtful = [*differences, 1.0, -1.0]
        ahead = sum(differences) + left * fmean(doubtful)
        spread = math.sqrt(left * pvariance(doubtful) * (1 + left / (seen + 2)))
        if not spread:
            return max(0.0, ahead) / len(self._scores)
        z = ahead / spread
        normal = NormalDist()
        return (ahead * normal.cdf(z) + spread * normal.pdf(z)) / len(self._scores)
