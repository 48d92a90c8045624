"""A reasoned draft from the question's own passages, to search again with (BlendFilter, equations 1 and 2)."""

import dspy

from knowgap.signatures.types import SourcePassage

__all__ = ["ExternalKnowledge"]


class ExternalKnowledge(dspy.Signature):
    """Reason step by step over the passages towards an answer to the question.

    The text will be used to search again: name every person, work, place and date that you come across on the way,
    and those that you would need next.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    reasoning: str = dspy.OutputField(desc="the steps, one sentence each, with full names")
    answer: str = dspy.OutputField(desc="a draft answer, in a few words")
