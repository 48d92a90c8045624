"""The answer in its asked style, from a longer text that contains it (BlendFilter, appendix B)."""

import dspy

__all__ = ["ShortenAnswer"]


class ShortenAnswer(dspy.Signature):
    """Give the answer to the question that the text arrives at, in the asked style."""

    question: str = dspy.InputField()
    text: str = dspy.InputField(desc="reasoning that ends in an answer")
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
