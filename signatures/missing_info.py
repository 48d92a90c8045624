"""The main decision: answer from what is known, or say what is missing (MIGRES, section 3.2)."""

import dspy

__all__ = ["UNANSWERABLE", "LastAnswer", "MissingInfo"]

UNANSWERABLE = "unanswerable"
"""The answer that means "not yet": what is known does not suffice."""


class MissingInfo(dspy.Signature):
    """Answer the question from the known statements alone, or say what is missing.

    Use no knowledge of your own. When the statements suffice, give the answer and leave `missing` empty.
    When they do not, write `unanswerable` as the answer and name in `missing` the facts still needed, using the names
    that are already known instead of describing them.
    """

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField(desc="statements collected so far; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    explanation: str = dspy.OutputField(desc="how the statements lead to the answer, or why they do not suffice")
    answer: str = dspy.OutputField(desc="the answer in the asked style, or exactly: unanswerable")
    confidence: int = dspy.OutputField(desc="from 1 (a guess) to 5 (certain)", ge=1, le=5)
    missing: str = dspy.OutputField(desc="the facts still needed, in one sentence; empty if answered")


class LastAnswer(dspy.Signature):
    """Answer the question now: nothing more will be looked up.

    Prefer the known statements. Where they leave a gap, use what you know yourself. Always give your best answer.
    """

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField(desc="statements collected; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    explanation: str = dspy.OutputField(desc="how the answer follows, in one or two sentences")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
    confidence: int = dspy.OutputField(desc="from 1 (a guess) to 5 (certain)", ge=1, le=5)
