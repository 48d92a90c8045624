"""A question broken into steps that build on each other (Least-to-Most)."""

import dspy

__all__ = ["DecomposeInOrder"]


class DecomposeInOrder(dspy.Signature):
    """Break the question into the simpler questions that must be answered first, in the order of answering.

    Easiest first; a later one may speak of the answer to an earlier one. Leave out the question itself. When it
    needs no steps, return an empty list.
    """

    question: str = dspy.InputField()
    questions: list[str] = dspy.OutputField(desc="the simpler questions in order; may be empty")
