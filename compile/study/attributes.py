"""What a study writes beside its trials, in Optuna's `user_attrs`."""

from __future__ import annotations

from collections.abc import Sequence

from optuna.trial import FrozenTrial, TrialState

from knowgap.lms.metering import Usage

LABEL, COSTS, SPENT = "label", "costs", "spent"
"""The attributes of a trial: why it is tried, its mean costs per question, and what it has spent so far."""

DEFAULT = "default"
"""The label of the trial with the defaults and no demonstrations."""


def spent_in(trials: Sequence[FrozenTrial]) -> Usage:
    """What trials have spent together, those included that run or failed."""
    started = [trial for trial in trials if trial.state != TrialState.WAITING]
    return sum((Usage(**trial.user_attrs.get(SPENT, {})) for trial in started), Usage())
