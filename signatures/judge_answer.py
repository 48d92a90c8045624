"""Does a prediction mean the same as the reference? (MIGRES, table 11, the metric Acc†)."""

import dspy

__all__ = ["JudgeAnswer"]


class JudgeAnswer(dspy.Signature):
    """Decide whether the prediction implies the reference answer to the question.

    Other wording, more detail or another format of a date or name is fine; another person, place, time or number is
    not.
    """

    question: str = dspy.InputField()
    prediction: str = dspy.InputField()
    reference: str = dspy.InputField()
    correct: bool = dspy.OutputField(desc="True if the prediction implies the reference")
