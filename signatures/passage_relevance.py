"""Does a passage help with the question? (RA-ISF, section 3.3, M_rel)."""

import dspy

__all__ = ["PassageRelevance"]


class PassageRelevance(dspy.Signature):
    """Decide whether the passage contains the answer to the question.

    Sharing a name or a topic with the question, or being only a first step towards the answer, is not enough. Where
    the question describes a person or thing without naming it, judge whether the passage is likely to be about it.
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(desc="True only if the passage gives the answer")
