"""What everything that asks questions is given: a language model, how many at a time, a seed, who hears of progress."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from knowgap.storage.progress import Progress

if TYPE_CHECKING:
    import dspy


@dataclass(frozen=True)
class Run:
    """How an evaluation, a compilation or another long task is run.

    Args:
        lm: the language model; None for the one that DSPy is configured with, or that a program is bound to.
        num_threads: how many questions are asked at a time, at least 1; no result depends on it.
        seed: the seed of every random choice, and of the bootstrap intervals.
        progress: called with what is done, how much there is, and what is going on.

    >>> import knowgap
    >>> run = knowgap.Run(lm=knowgap.make_lm("extractive"), num_threads=4)
    >>> data = knowgap.load_dataset("sample")
    >>> len(knowgap.evaluate(knowgap.get_program("direct")(), data, "f1", run=run, limit=2).records)
    2
    """

    lm: dspy.BaseLM | None = None
    num_threads: int = 8
    seed: int = 0
    progress: Progress | None = None

    def part(self, name: str, before: int = 0, total: int = 0) -> Run:
        """The same for a part of the task, whose progress is told under a name.

        With a `total`, the part begins where `before` of it is done; without, its own numbers are told.
        """
        if (tell := self.progress) is None:
            return self
        return replace(self, progress=lambda done, size, what: tell(before + done, total or size, f"{name}: {what}"))
