"""What BlendFilter asks: knowledge to blend into the queries, which passages are relevant, a short answer.

Source: "BlendFilter: Advancing Retrieval-Augmented Large Language Models via Query Generation Blending and Knowledge
Filtering", algorithm 1. The answer itself (equation 9) is `ReasonedAnswer` of `answers.py`.
"""

import dspy

from knowgap.signatures.types import SourcePassage

__all__ = [
    "ExternalKnowledge",
    "FilterKnowledge",
    "InternalKnowledge",
    "KnowledgeRelevance",
    "ReasonRelevance",
    "ShortenAnswer",
]


# Equations 1 and 2.
class ExternalKnowledge(dspy.Signature):
    """Reason step by step over the passages towards an answer to the question.

    The text will be used to search again: name every person, work, place and date that you come across on the way,
    and those that you would need next.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    reasoning: str = dspy.OutputField(desc="the steps, one sentence each, with full names", default_factory=str)
    answer: str = dspy.OutputField(desc="a draft answer, in a few words")


# Equations 3 and 4.
class InternalKnowledge(dspy.Signature):
    """Write, from memory, a passage that answers the question, such as an encyclopedia might contain."""

    question: str = dspy.InputField()
    passage: str = dspy.OutputField(desc="one paragraph with names, dates and places")


# Equation 7, first turn: reasons.
class ReasonRelevance(dspy.Signature):
    """Go through the passages one by one and say whether each is relevant to the question.

    Set aside what you know yourself and judge by the passages alone. A passage is relevant if it holds a fact that
    the answer needs, also if only for one step of it. Several may be relevant, or none.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    reasoning: str = dspy.OutputField(desc="one line for each passage: its id, relevant or not, and why")


# Equation 7, second turn: ids only.
class FilterKnowledge(dspy.Signature):
    """List the ids of the passages that are relevant to the question, following the assessment."""

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    assessment: str = dspy.InputField(desc="what was said about each passage")
    relevant_ids: list[int] = dspy.OutputField(desc="ids only; empty if none is relevant")


# Beyond the paper: one passage, one probability.
class KnowledgeRelevance(dspy.Signature):
    """Decide whether the passage is relevant to the question.

    Set aside what you know yourself and judge by the passage alone. It is relevant if it holds a fact that the answer
    needs, also if only for one step of it.
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(desc="True if the passage holds a fact that the answer needs")


# Appendix B.
class ShortenAnswer(dspy.Signature):
    """Give the answer to the question that the text arrives at, in the asked style."""

    question: str = dspy.InputField()
    text: str = dspy.InputField(desc="reasoning that ends in an answer")
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
