"""Is there something to be asked first, and what? (Self-Ask)."""

import dspy

from knowgap.signatures.types import SubAnswer

__all__ = ["FollowUp"]


class FollowUp(dspy.Signature):
    """Decide whether another simple question must be answered before the question can be, and ask it.

    The follow-up asks for one fact, in full words, with the names that earlier answers gave; it repeats none that was
    asked. When the answers so far settle the question, no follow-up is needed.
    """

    question: str = dspy.InputField()
    sub_answers: list[SubAnswer] = dspy.InputField(desc="follow-up questions answered so far; may be empty")
    needed: bool = dspy.OutputField(desc="True if a follow-up question is needed")
    query: str = dspy.OutputField(desc="the follow-up question; empty if none is needed")
