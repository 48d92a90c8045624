"""Answers that several methods ask for."""

import dspy

from knowgap.signatures.types import SourcePassage

__all__ = ["AnswerDirectly", "AnswerFromPassages", "AnswerWithConfidence", "ReasonDirectly", "ReasonedAnswer"]


class AnswerDirectly(dspy.Signature):
    """Answer the question from your own knowledge."""

    question: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")


class ReasonDirectly(dspy.Signature):
    """Think the question through step by step, then answer it from your own knowledge."""

    question: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    reasoning: str = dspy.OutputField(desc="the steps, one sentence each")
    answer: str = dspy.OutputField(desc="the answer in the asked style")


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


class ReasonedAnswer(dspy.Signature):
    """Reason step by step over the passages, then answer the question.

    Take facts from the passages where they have them and from your own knowledge where they do not.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    reasoning: str = dspy.OutputField(desc="the steps, one sentence each, naming who and what")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
