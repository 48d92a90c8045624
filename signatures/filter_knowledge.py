"""Which passages are relevant: reasons first, then ids only (BlendFilter, equation 7)."""

import dspy

from knowgap.signatures.types import SourcePassage

__all__ = ["KnowledgeRelevance", "ReasonRelevance", "RelevantIds"]


class ReasonRelevance(dspy.Signature):
    """Go through the passages one by one and say whether each is relevant to the question.

    Set aside what you know yourself and judge by the passages alone. A passage is relevant if it holds a fact that
    the answer needs, also if only for one step of it. Several may be relevant, or none.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    reasoning: str = dspy.OutputField(desc="one line for each passage: its id, relevant or not, and why")


class RelevantIds(dspy.Signature):
    """List the ids of the passages that are relevant to the question, following the assessment."""

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    assessment: str = dspy.InputField(desc="what was said about each passage")
    relevant_ids: list[int] = dspy.OutputField(desc="ids only; empty if none is relevant")


class KnowledgeRelevance(dspy.Signature):
    """Decide whether the passage is relevant to the question.

    Set aside what you know yourself and judge by the passage alone. It is relevant if it holds a fact that the answer
    needs, also if only for one step of it.
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(desc="True if the passage holds a fact that the answer needs")
