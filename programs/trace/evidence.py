"""What became of the gold passages of a question: found by a search, shown to the model, used, or lost, and where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from knowgap.programs.trace.steps import (
    Answered,
    Compared,
    Extracted,
    Filtered,
    Judged,
    Noted,
    Rejected,
    Reranked,
    Retrieved,
)
from knowgap.retrieval.passage import gold_name

if TYPE_CHECKING:
    from knowgap.programs.trace.trace import Trace

FAILED = "question failed"
"""The program failed on the question."""
NOT_SEARCHED = "not searched for"
"""No search returned the passage, and nothing but the question itself was searched for."""
NOT_RETRIEVED = "not retrieved"
"""No search of the question returned it."""
BELOW_THRESHOLD = "below the relevance threshold"
"""It was retrieved, but scored below δ, and the model did not see it."""
OVER_CAP = "over a cap"
"""It was retrieved, not below δ, but beyond the number of passages that the model may read."""
IRRELEVANT = "judged irrelevant"
"""The model saw it, and judged it irrelevant whenever it was asked."""
NOTE_REJECTED = "note not kept"
"""The model saw it, and the note that was written from it lost against an earlier one."""
NOT_ENTAILED = "rejected by entailment"
"""The model saw it, and every statement that cites it was rejected by the entailment model."""
CUT = "shown in part, cut by the sentence filter"
"""The model saw a part of it, and the answer does not rest on it."""
NOTHING_TAKEN = "nothing taken from it"
"""The model saw it, but took no statement from it."""
NOT_IN_ANSWER = "not in the answering prompt"
"""The model saw it, but when it answered, it saw neither the passage nor anything taken from it."""
USED = "used for the answer"
"""The model saw it, or something taken from it, when it answered."""

FATES = (
    *(FAILED, NOT_SEARCHED, NOT_RETRIEVED, BELOW_THRESHOLD, OVER_CAP, IRRELEVANT),
    *(NOTE_REJECTED, NOT_ENTAILED, CUT, NOTHING_TAKEN, NOT_IN_ANSWER, USED),
)
"""What can become of a gold passage, from the first step of a method to the last."""


def found_passages(trace: Trace) -> set[str]:
    """Ids of the passages that some search of the question returned."""
    return {passage for step in trace.of(Retrieved) for hits in step.hits for passage in hits}


def shown_passages(trace: Trace) -> set[str]:
    """Ids of the retrieved passages that a prompt contained, whole or in part."""
    return found_passages(trace) & trace.shown.keys()


def used_passages(trace: Trace) -> set[str]:
    """Ids of the retrieved passages that the final answer rests on, by themselves or by what was taken from them."""
    answers = trace.of(Answered)
    return shown_passages(trace) & set(answers[-1].passages if answers else [])


def evidence_fates(trace: Trace, gold: Iterable[str]) -> dict[str, str]:
    """What became of each gold passage: the first of `FATES` that holds.

    A passage is lost at a step only if no other step of the same kind keeps it: one that is judged irrelevant to one
    sub-question and relevant to another is not lost there. For a document that was split, the passage that came
    furthest counts.

    Args:
        trace: the trace of the question.
        gold: ids of the passages that hold the evidence, or of their documents.
    """
    found, shown, used = found_passages(trace), shown_passages(trace), used_passages(trace)
    searched = {query.strip() for step in trace.of(Retrieved) for query in step.queries}
    not_found = NOT_RETRIEVED if searched - {trace.question.strip()} else NOT_SEARCHED
    taken = {name for step in trace.of(Extracted) for sources in step.sources for name in sources}
    lost = {
        IRRELEVANT: _judged_irrelevant(trace),
        NOTE_REJECTED: _in_rejected_notes(trace),
        NOT_ENTAILED: {name for step in trace.of(Rejected) for name in step.passages} - taken,
        CUT: {name for name in shown if trace.shown[name] < len(trace.passages[name]["text"])},
        NOTHING_TAKEN: shown - taken if trace.of(Extracted) else set[str](),
    }
    below = {name for step in trace.of(Reranked) for name in step.dropped}
    below -= {name for step in trace.of(Reranked) for name in step.kept}

    def fate(name: str) -> str:
        if name not in found:
            return not_found
        if name in used:
            return USED
        if name not in shown:
            return BELOW_THRESHOLD if name in below else OVER_CAP
        return next((fate for fate, names in lost.items() if name in names), NOT_IN_ANSWER)

    gold = list(gold)
    parts: dict[str, list[str]] = {name: [name] for name in gold}
    for passage in found:
        name = gold_name(passage, parts)
        if name is not None and name != passage:
            parts[name].append(passage)
    return {name: max(map(fate, parts[name]), key=FATES.index) for name in gold}


def _judged_irrelevant(trace: Trace) -> set[str]:
    relevant = {step.passage for step in trace.of(Judged) if step.value}
    irrelevant = {step.passage for step in trace.of(Judged) if not step.value}
    for step in trace.of(Filtered):
        relevant.update(step.kept)
        irrelevant.update(step.dropped)
    return irrelevant - relevant


def _in_rejected_notes(trace: Trace) -> set[str]:
    """Passages read for notes that were compared with an earlier one and lost, and for no note that was kept."""
    kept, rejected, last = set[str](), set[str](), set[str]()
    for step in trace.steps:
        if isinstance(step, Noted):
            last = set(step.passages)
        elif isinstance(step, Compared) and not step.better:
            rejected |= last
            last = set()
        elif isinstance(step, Retrieved):  # the next note begins
            kept |= last
            last = set()
    return rejected - kept - last
