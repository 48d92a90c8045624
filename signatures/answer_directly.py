"""An answer without looking anything up."""

import dspy

__all__ = ["AnswerDirectly", "ReasonDirectly"]


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
