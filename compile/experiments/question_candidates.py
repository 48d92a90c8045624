"""A program whose every question is looked up among its own paragraphs, as RQ-RAG's multi-hop tables have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy

from knowgap.programs.base import Program

__all__ = ["AmongCandidates"]


class AmongCandidates:
    """Asks a program with its retriever narrowed to the question's `candidates`; all else is the program's.

    Args:
        program: what is asked; it stays as it is.
        index: the index itself, which can be told to search some passages only.
        examples: the questions with their `candidates`; one without any searches everything.
    """

    def __init__(self, program: Program, index: Any, examples: Sequence[dspy.Example]):
        self._program, self._index = program, index
        self._candidates = {e.question: list(e.get("candidates") or []) for e in examples}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._program, name)

    def __call__(self, *, question: str) -> dspy.Prediction:
        """Answer a question."""
        from knowgap.retrieval import CandidateRetriever

        ids = self._candidates.get(question)
        if not ids:
            return self._program(question=question)
        twin = self._program.deepcopy()
        twin.retriever = CandidateRetriever.within(self._index, ids)
        return twin(question=question)
