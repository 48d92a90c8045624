"""Signatures that judge answers: what is right, and which passages state it."""

import dspy

from knowgap.signatures.types import SourcePassage


# The metric Acc† of MIGRES, table 11.
class JudgeAnswer(dspy.Signature):
    """Decide whether the prediction implies the reference answer to the question.

    Other wording, more detail or another format of a date or name is fine; another person, place, time or number is
    not.
    """

    question: str = dspy.InputField()
    prediction: str = dspy.InputField()
    reference: str = dspy.InputField()
    correct: bool = dspy.OutputField(desc="True if the prediction implies the reference")


class WhichPassages(dspy.Signature):
    """Decide for each statement which passages state it.

    A passage states it if someone who reads only this passage knows that the statement is true, in whatever words.
    Another name, number, date or role, or a detail that the passage leaves out, makes it another statement. If only
    several passages together state it, name them all.
    """

    passages: list[SourcePassage] = dspy.InputField()
    statements: list[str] = dspy.InputField()
    sources: list[str] = dspy.OutputField(
        desc="for each statement, in order, the numbers of the passages that state it, such as '1, 3', or 'none'"
    )
