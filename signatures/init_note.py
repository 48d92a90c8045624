"""The first note (Adaptive-Note, equation 1)."""

import dspy

from knowgap.signatures.types import SourcePassage

__all__ = ["InitNote"]


class InitNote(dspy.Signature):
    """Read the passages and write a note of everything in them that may help to answer the question.

    Gather as much relevant information as you can, close to the wording of the passages, in whatever form suits.
    Leave out what has nothing to do with the question, and do not answer it yet.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    note: str = dspy.OutputField(desc="the note; empty if the passages hold nothing of use")
