"""An answer from retrieved passages: the reading step of plain retrieval-augmented generation."""

import dspy

from knowgap.signatures.types import SourcePassage

__all__ = ["AnswerFromPassages", "AnswerWithConfidence"]


class AnswerFromPassages(dspy.Signature):
    """Answer the question with the help of the passages.

    Passages may be beside the point: use those that help. When none does, give your best answer.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")


class AnswerWithConfidence(dspy.Signature):
    """Answer the question with the help of the passages, and say how sure you are of the answer.

    Passages may be beside the point: use those that help. When none does, give your best answer with low confidence.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
    confidence: float = dspy.OutputField(desc="probability that the answer is right, from 0 to 1", ge=0, le=1)
