"""Does a passage help with the question? (RA-ISF, section 3.3, M_rel)."""

import dspy

__all__ = ["PassageRelevance"]


class PassageRelevance(dspy.Signature):
    """Decide whether the passage contains information from which the question can be answered.

    Sharing a name or a topic with the question is not enough.
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(desc="True only if the passage helps to answer")
