"""Is the new note better than the best one? (Adaptive-Note, equation 6)."""

import dspy

__all__ = ["CompareNotes"]


class CompareNotes(dspy.Signature):
    """Judge whether the new note serves to answer the question better than the best note so far.

    First: does the new note add information that the best note lacks, beyond other words for the same? If not, it is
    not better. Then weigh: key information for this very question, coverage of its aspects, detail, practical use.
    """

    question: str = dspy.InputField()
    best_note: str = dspy.InputField()
    new_note: str = dspy.InputField()
    reason: str = dspy.OutputField(desc="one sentence: what the new note adds or lacks")
    better: bool = dspy.OutputField(desc="True only if the new note is better")
