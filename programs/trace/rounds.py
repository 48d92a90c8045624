"""The rounds of a question, told to people: what was looked for, where it was found, and what was still missing."""

from __future__ import annotations

from dataclasses import dataclass

from knowgap.errors import shorten
from knowgap.programs.trace import steps as s
from knowgap.programs.trace.trace import Trace

_FOUND = 5


@dataclass(frozen=True)
class Round:
    """An iteration of a method.

    Attributes:
        queries: what was looked for.
        found: titles of at most five found passages that something was taken from, or else of the first for each query.
        missing: what was missing in the end; empty if nothing was, or if the program did not say.
    """

    queries: list[str]
    found: list[str]
    missing: str

    def __str__(self) -> str:
        found = ", ".join(self.found) or "nothing"
        missing = f"; missing: {shorten(self.missing)}" if self.missing else ""
        return f"looked for {shorten('; '.join(self.queries), 200)} → found {found}{missing}"


def rounds_of(trace: Trace) -> list[Round]:
    """The rounds of a question: each begins with the first search of an iteration.

    >>> import dspy, knowgap
    >>> towns = [knowgap.Passage("orle", "Orle Bridge", "The Orle Bridge was designed by Ada Venn.")]
    >>> index = knowgap.build_index(towns, "bridges", engine="bm25")
    >>> with dspy.context(lm=knowgap.make_lm("extractive")):
    ...     prediction = knowgap.get_program("migres")(index)(question="Who designed the Orle Bridge?")
    >>> print(*rounds_of(prediction.trace))
    looked for Who designed the Orle Bridge? → found Orle Bridge
    """
    groups, iteration = list[list[s.Step]](), None
    for step in trace.steps:
        if isinstance(step, s.Retrieved) and iteration != step.iteration:
            groups.append([])
            iteration = step.iteration
        if groups:
            groups[-1].append(step)
    return [_told(steps, trace) for steps in groups]


def _told(steps: list[s.Step], trace: Trace) -> Round:
    searched, taken, missing = list[tuple[str, list[str]]](), set[str](), ""
    for step in steps:
        match step:
            case s.Retrieved():
                searched += zip(step.queries, step.hits, strict=True)
            case s.Extracted():
                taken.update(name for sources in step.sources for name in sources)
            case s.Filtered():
                taken.update(step.kept)
            case s.Judged(value=True):
                taken.add(step.passage)
            case s.Reasoned() | s.Answered():
                taken.update(step.passages)
            case s.Missing():
                missing = step.missing
            case s.Queried():
                missing = missing or "; ".join(step.queries)
            case _:
                pass
    hits = [name for _, found in searched for name in found]
    found = [name for name in hits if name in taken] or [name for _, some in searched for name in some[:3]]
    return Round(
        [query for query, _ in searched], [trace.title(name) for name in dict.fromkeys(found)][:_FOUND], missing
    )
