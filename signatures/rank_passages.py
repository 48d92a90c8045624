"""Passages ranked and filtered by the model itself (the Self-Rerank baseline)."""

import dspy

from knowgap.signatures.types import SourcePassage

__all__ = ["RankPassages"]


class RankPassages(dspy.Signature):
    """Rank the passages by how much they help to answer the question, and leave out those that do not help.

    A passage helps if it holds a fact that the answer needs, also if only for one step of it.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    relevant_ids: list[int] = dspy.OutputField(desc="ids of the passages that help, most helpful first; may be empty")
