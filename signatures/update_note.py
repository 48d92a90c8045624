"""The note taken further with new passages (Adaptive-Note, equations 4 and 5)."""

import dspy

from knowgap.signatures.types import SourcePassage

__all__ = ["UpdateNote"]


class UpdateNote(dspy.Signature):
    """Add to the note what the new passages contribute to answering the question.

    Keep what the note holds. Add only what is in the passages, helps with the question and is not there yet, close to
    the passages' own words. Return the whole note. When the passages add nothing, return it as it was.
    """

    question: str = dspy.InputField()
    best_note: str = dspy.InputField(desc="the note so far")
    passages: list[SourcePassage] = dspy.InputField(desc="newly found passages")
    note: str = dspy.OutputField(desc="the whole note, with what is new")
