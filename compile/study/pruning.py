"""When a trial is given up: where it does worse than the best so far, or where nothing is to be gained any more."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from statistics import NormalDist, fmean, pvariance

from optuna import create_study
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import WilcoxonPruner
from optuna.trial import TrialState, create_trial

__all__ = ["Pruner"]


class Pruner:
    """The trial to beat.

    A trial is given up for one of two reasons. It does worse, by Optuna's Wilcoxon signed-rank test over the questions
    that both were asked. Or what it can be expected to gain by the end is less than `least_gain`: most settings answer
    most questions alike, and the test never calls those worse.

    The test runs beside the study's storage, to which every report would be a transaction of its own.

    Args:
        scores: of the best complete trial, in the study's order of the questions; each from 0 to 1.
        startup: questions that are asked in any case.
        p_threshold: a trial is given up where it is worse at this level.
        least_gain: in the mean score of all questions.
    """

    def __init__(self, scores: Sequence[float], startup: int, p_threshold: float = 0.1, least_gain: float = 0.01):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            self._pruner = WilcoxonPruner(p_threshold=p_threshold, n_startup_steps=startup)
        self._scores, self._startup, self._least_gain = [*map(float, scores)], startup, least_gain
        self._study = create_study(direction="maximize")
        self._study.add_trial(create_trial(value=fmean(scores), intermediate_values=dict(enumerate(self._scores))))

    def should_prune(self, scores: Sequence[float]) -> bool:
        """Whether a trial with these scores, in the same order, is to be given up."""
        if len(scores) >= self._startup and self.expected_gain(scores) < self._least_gain:
            return True
        so_far = create_trial(state=TrialState.RUNNING, intermediate_values=dict(enumerate(map(float, scores))))
        return self._pruner.prune(self._study, so_far)

    def expected_gain(self, scores: Sequence[float]) -> float:
        """By how much a trial can be expected to exceed the best in the end; where it falls short, that counts as 0.

        The sum of the differences still to come is taken to be normal, with the mean and variance of those seen so far
        and of one win and one loss more, which keep the doubt alive where all were ties. The variance counts that the
        mean itself is uncertain.
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
