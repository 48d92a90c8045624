"""Where gold passages go: each fate in a trace of a few steps, counted by hand, and in methods with scripted models."""

from __future__ import annotations

import pytest

from knowgap.programs.trace import steps as s
from knowgap.programs.trace.evidence import FATES, evidence_fates, found_passages, shown_passages
from knowgap.programs.trace.trace import Trace
from knowgap.retrieval.passage import Passage

TEXT = "Ten chars."


def trace(*steps: s.Step, **shown: int) -> Trace:
    """A trace whose search returns the passages a to e, all of ten characters."""
    passages = {name: Passage(name, name.upper(), TEXT) for name in "abcde"}
    search = s.Retrieved(queries=["q"], k=5, hits=[list("abcde")])
    return Trace(program="p", question="q", steps=[search, *steps], passages=passages, shown=shown)


def found(passage: str) -> s.Retrieved:
    return s.Retrieved(queries=["r"], k=5, hits=[[passage]])


@pytest.mark.parametrize(
    ("made", "fates"),
    [
        (trace(), {"z": "not searched for", "a": "over a cap"}),
        (trace(s.Reranked(threshold=1.0, kept={"a": 2.0, "b": 1.5}, dropped={"c": 0.5}), a=10),
         {"a": "not in the answering prompt", "b": "over a cap", "c": "below the relevance threshold"}),
        (trace(  # dropped for one query, kept for another, but one too many
            s.Reranked(threshold=1.0, kept={}, dropped={"a": 0.5}),
            s.Reranked(threshold=1.0, kept={"a": 2.0}, dropped={})),
         {"a": "over a cap"}),
        (trace(s.Reranked(threshold=1.0, kept={}, dropped={"a": 0.5}), a=10), {"a": "not in the answering prompt"}),
        (trace(a=4, b=10), {"a": "shown in part, cut by the sentence filter", "b": "not in the answering prompt"}),
        (trace(
            s.Judged(what="relevance", value=False, passage="a"), s.Judged(what="relevance", value=False, passage="b"),
            s.Judged(what="relevance", value=True, passage="b"), s.Judged(what="self-knowledge", value=False),
            a=10, b=10),
         {"a": "judged irrelevant", "b": "not in the answering prompt"}),
        (trace(s.Filtered(kept=["a"], dropped=["b", "c"]), s.Filtered(kept=["c"], dropped=["a"]), a=10, b=10, c=10),
         {"a": "not in the answering prompt", "b": "judged irrelevant", "c": "not in the answering prompt"}),
        (trace(
            s.Rejected(what="x", why="not entailed", passages=["a", "b"]),
            s.Extracted(statements=["y"], sources=[["b"]]), a=4, b=10, c=10),
         {"a": "rejected by entailment", "b": "not in the answering prompt", "c": "nothing taken from it"}),
        (trace(
            s.Extracted(statements=["y"], sources=[["b"]]), found("c"),
            s.Answered(answer="x", passages=["b"]), b=4, c=10),
         {"b": "used for the answer", "c": "nothing taken from it", "z": "not retrieved"}),
        (trace(
            s.Compared(better=False, passages=["b", "c"]), s.Compared(better=True, passages=["c"]),
            a=10, b=10, c=10),
         {"a": "not in the answering prompt", "b": "note not kept", "c": "not in the answering prompt"}),
    ],
)  # fmt: skip
def test_each_fate(made: Trace, fates: dict[str, str]):
    assert evidence_fates(made, fates) == fates
    assert set(fates.values()) <= set(FATES)
    lost = {"not searched for", "not retrieved", "over a cap", "below the relevance threshold"}
    assert {name for name, fate in fates.items() if fate not in lost} == shown_passages(made) & fates.keys()


def test_what_the_model_wrote_itself_is_neither_found_nor_shown():
    made = trace(s.Prompted(passage="model:1", text="…"), **{"model:1": 1, "a": 10})
    assert found_passages(made) == set("abcde")
    assert shown_passages(made) == {"a"}
