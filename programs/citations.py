"""Statements with the passages that they cite."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import dspy

from knowgap.programs.passages import cited, distinct
from knowgap.programs.trace.steps import Extracted
from knowgap.retrieval.passage import Passage

if TYPE_CHECKING:
    from knowgap.retrieval.entailment import EntailmentModel

T = TypeVar("T")

MAX_CITATIONS = 3
"""ALCE looks at the first three citations of a statement."""

Claims = dict[str, list[Passage]]
"""The passages that each statement cites."""


def strip_citations(text: str) -> str:
    """The text without its bracketed citations, as ALCE removes them; a text without citations is unchanged."""
    if not re.search(r"\[\d", text):
        return text
    return re.sub(r"\[\d+", "", re.sub(r" \[\d+", "", text)).replace(" |", "").replace("]", "")


def strip_numbers(text: str) -> str:
    """The text without the numbers of sources that a model wrote into it, `[1]` or `[1, 2]`; other brackets stay."""
    return re.sub(r" ?\[[1-9]\d*(?: ?, ?[1-9]\d*)*\]", "", text)


def joined(passages: Iterable[Passage]) -> str:
    """The premise that several passages make together."""
    return "\n".join(str(passage) for passage in passages)


def merge_claims(claims: Iterable[tuple[str, Sequence[Passage]]]) -> Claims:
    """Join the passages of statements that occur several times."""
    merged: Claims = {}
    for statement, passages in claims:
        merged[statement] = distinct([*merged.get(statement, []), *passages])
    return merged


def read_claims(output: dspy.Prediction | None, passages: Sequence[Passage]) -> Claims:
    """The `statements` of a reply with the passages behind the cited numbers; none if the reply could not be read."""
    statements = (output.statements or ()) if output is not None else ()
    worded = ((" ".join(item.statement.split()), item.sources) for item in statements)
    return merge_claims((statement, cited(passages, numbers)) for statement, numbers in worded if statement)


def extracted_step(claims: Claims) -> Extracted:
    """The step that records claims in a trace."""
    sources = [[passage.id for passage in passages] for passages in claims.values()]
    return Extracted(statements=list(claims), sources=sources)


def entailed_claims(entailment: EntailmentModel, claims: Claims, threshold: float | None = None) -> Claims:
    """The statements that a passage they cite entails, each with the cited passages that do (MIGRES, section 3.2).

    A passage entails a statement from the probability `threshold` on; None takes the model's own.
    """
    pairs = [(str(passage), statement) for statement, passages in claims.items() for passage in passages]
    probabilities = iter(entailment.entails(pairs))
    least = entailment.default_threshold if threshold is None else threshold
    entailing = {s: [p for p in passages if next(probabilities) >= least] for s, passages in claims.items()}
    return {statement: passages for statement, passages in entailing.items() if passages}
