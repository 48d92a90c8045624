"""The answer from the best note alone, in the task's style (Adaptive-Note, equation 9)."""

import dspy

__all__ = ["AnswerFromNote"]


class AnswerFromNote(dspy.Signature):
    """Answer the question from the note.

    Keep to the asked style. When the note does not settle it, give the answer that the note makes most likely.
    """

    question: str = dspy.InputField()
    note: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
