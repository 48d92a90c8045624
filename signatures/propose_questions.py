"""The next questions to look up, from the best note so far (Adaptive-Note, equation 3)."""

import dspy

__all__ = ["ProposeQuestions"]


class ProposeQuestions(dspy.Signature):
    """Think of two new questions whose answers would complete the note.

    Ask for what the note still lacks to answer the question: one fact each, with the names that the note gives.
    When it lacks nothing, ask for what would confirm the answer.
    The two must differ from each other and from the questions asked before.
    """

    question: str = dspy.InputField(desc="the question to be answered in the end")
    note: str = dspy.InputField(desc="the best note so far")
    asked: list[str] = dspy.InputField(desc="questions asked before")
    questions: list[str] = dspy.OutputField(desc="two new questions")
