"""The base of the baselines: how an answer is worded."""

from __future__ import annotations

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice
from knowgap.signatures import STYLES

__all__ = ["Baseline"]


class Baseline(Program):
    """A published method that the five methods are measured against.

    All baselines run under the same retriever and language model and write the same trace. None brings demonstrations:
    an optimizer adds them.

    Args:
        retriever: the index to search; None for baselines that retrieve nothing.
        **kwargs: `concurrent` and hyperparameters.
    """

    style = Choice("short", "how the answer is worded", choices=tuple(STYLES), tune=False)

    @property
    def wording(self) -> str:
        """The instruction that belongs to the style: the input `style` of the signatures."""
        return STYLES[self.style]
