"""An answer after reasoning over passages (BlendFilter, equation 9; chain-of-thought retrieval baselines)."""

import dspy

from knowgap.signatures.types import SourcePassage

__all__ = ["ReasonedAnswer"]


class ReasonedAnswer(dspy.Signature):
    """Reason step by step over the passages, then answer the question.

    Take facts from the passages where they have them and from your own knowledge where they do not.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    reasoning: str = dspy.OutputField(desc="the steps, one sentence each, naming who and what")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
