"""Questions asked of their own paragraphs alone, as in RQ-RAG's multi-hop tables."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import dspy

from knowgap.programs.base import Program
from knowgap.retrieval.candidates import CandidateRetriever

__all__ = ["ask_among"]


def ask_among(program: Program, index: Any, question: str, ids: Collection[str] | None) -> dspy.Prediction:
    """Ask a program a question.

    Args:
        program: stays as it is.
        index: the program's index; it can search some of its passages only.
        question: what is asked.
        ids: the passages to search; None or empty for all.
    """
    if ids:
        program = program.deepcopy()
        program.retriever = CandidateRetriever.within(index, ids)
    return program(question=question)
