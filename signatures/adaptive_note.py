"""What Adaptive-Note asks: a first note, questions on what it lacks, an updated note, a comparison, the answer.

Source: "Retriever-and-Memory: Towards Adaptive Note-Enhanced Retrieval-Augmented Generation", section "Methodology".
"""

import dspy

from knowgap.signatures.types import SourcePassage

__all__ = ["AnswerFromNote", "CompareNotes", "InitNote", "ProposeQuestions", "UpdateNote"]


# Equation 1.
class InitNote(dspy.Signature):
    """Read the passages and write a note of everything in them that may help to answer the question.

    Gather as much relevant information as you can, close to the wording of the passages, in whatever form suits.
    Leave out what has nothing to do with the question, and do not answer it yet.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    note: str = dspy.OutputField(desc="the note; empty if the passages hold nothing of use")


# Equation 3.
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


# Equations 4 and 5.
class UpdateNote(dspy.Signature):
    """Add to the note what the new passages contribute to answering the question.

    Keep what the note holds. Add only what is in the passages, helps with the question and is not there yet, close to
    the passages' own words. Return the whole note. When the passages add nothing, return it as it was.
    """

    question: str = dspy.InputField()
    best_note: str = dspy.InputField(desc="the note so far")
    passages: list[SourcePassage] = dspy.InputField(desc="newly found passages")
    note: str = dspy.OutputField(desc="the whole note, with what is new")


# Equation 6.
class CompareNotes(dspy.Signature):
    """Judge whether the new note serves to answer the question better than the best note so far.

    First: does the new note add information that the best note lacks, beyond other words for the same? If not, it is
    not better. Then weigh: key information for this very question, coverage of its aspects, detail, practical use.
    """

    question: str = dspy.InputField()
    best_note: str = dspy.InputField()
    new_note: str = dspy.InputField()
    reason: str = dspy.OutputField(desc="one sentence: what the new note adds or lacks", default_factory=str)
    better: bool = dspy.OutputField(desc="True only if the new note is better")


# Equation 9.
class AnswerFromNote(dspy.Signature):
    """Answer the question from the note.

    Keep to the asked style. When the note does not settle it, give the answer that the note makes most likely.
    """

    question: str = dspy.InputField()
    note: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
