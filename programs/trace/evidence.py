"""What became of the gold passages of a question: found by a search, shown to the model, used, or lost, and where."""

from __future__ import annotations

from collections.abc import Iterable

from knowgap.programs.trace import steps as s
from knowgap.programs.trace.trace import Trace
from knowgap.retrieval.passage import gold_name

FATES = {
    "question failed": "The program failed on the question.",
    "not searched for": "No search returned it, and nothing but the question itself was searched for.",
    "not retrieved": "No search of the question returned it.",
    "below the relevance threshold": "It was retrieved, but scored below δ, and the model did not see it.",
    "over a cap": "It was retrieved, not below δ, but beyond the number of passages that the model may read.",
    "judged irrelevant": "The model saw it, and judged it irrelevant whenever it was asked.",
    "note not kept": "The model saw it, and the note that was written from it lost against an earlier one.",
    "rejected by entailment": "The model saw it, and no statement that cites it passed the entailment model.",
    "shown in part, cut by the sentence filter": "The model saw a part of it, and the answer does not rest on it.",
    "nothing taken from it": "The model saw it, but took no statement from it.",
    "not in the answering prompt": "When it answered, the model saw neither the passage nor anything taken from it.",
    "used for the answer": "The model saw it, or something taken from it, when it answered.",
}
"""What can become of a gold passage, from the first step of a method to the last, and what each fate means."""
FAILED, NOT_SEARCHED, *_, USED = FATES


def found_passages(trace: Trace) -> set[str]:
    """Ids of the passages that some search of the question returned."""
    return {passage for step in trace.of(s.Retrieved) for hits in step.hits for passage in hits}


def shown_passages(trace: Trace) -> set[str]:
    """Ids of the retrieved passages that a prompt contained, whole or in part."""
    return found_passages(trace) & trace.shown.keys()


def used_passages(trace: Trace) -> set[str]:
    """Ids of the retrieved passages that the final answer rests on, by themselves or by what was taken from them."""
    answers = trace.of(s.Answered)
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
    queries = {query.strip() for step in trace.of(s.Retrieved) for query in step.queries}
    not_found = "not retrieved" if queries - {trace.question.strip()} else NOT_SEARCHED
    scored, filtered, compared = trace.of(s.Reranked), trace.of(s.Filtered), trace.of(s.Compared)
    judged = {value: {j.passage for j in trace.of(s.Judged) if j.value is value} for value in (True, False)}
    noted = {value: {p for c in compared if c.better is value for p in c.passages} for value in (True, False)}
    taken = {passage for step in trace.of(s.Extracted) for sources in step.sources for passage in sources}
    below = {p for step in scored for p in step.dropped} - {p for step in scored for p in step.kept}
    lost = {
        "judged irrelevant": (judged[False] | {p for step in filtered for p in step.dropped})
        - (judged[True] | {p for step in filtered for p in step.kept}),
        "note not kept": noted[False] - noted[True],
        "rejected by entailment": {p for step in trace.of(s.Rejected) for p in step.passages} - taken,
        "shown in part, cut by the sentence filter": {
            name for name in shown if trace.shown[name] < len(trace.passages[name].text)
        },
        "nothing taken from it": shown - taken if trace.of(s.Extracted) else set[str](),
    }

    def fate(name: str) -> str:
        if name not in found:
            return not_found
        if name in used:
            return USED
        if name not in shown:
            return "below the relevance threshold" if name in below else "over a cap"
        return next((fate for fate, names in lost.items() if name in names), "not in the answering prompt")

    parts = {name: [name] for name in gold}
    for passage in found:
        name = gold_name(passage, parts)
        if name is not None and name != passage:
            parts[name].append(passage)
    return {name: max(map(fate, own), key=[*FATES].index) for name, own in parts.items()}
