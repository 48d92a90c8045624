"""A question broken into sub-questions (RA-ISF, section 3.3, M_decom)."""

import dspy

__all__ = ["Decompose"]


class Decompose(dspy.Signature):
    """Break the question into simpler questions whose answers together answer it.

    Two to four of them. Each must be understandable alone: repeat names, do not refer to another sub-question or its
    answer. When the question cannot be broken down, return it alone.
    """

    question: str = dspy.InputField()
    questions: list[str] = dspy.OutputField(desc="two to four self-contained sub-questions")
