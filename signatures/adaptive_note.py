"""Signatures of Adaptive-Note: a first note, questions on what it lacks, an updated note, a comparison, the answer.

Source: "Retriever-and-Memory: Towards Adaptive Note-Enhanced Retrieval-Augmented Generation", section "Methodology",
tables A3 and A4.
"""

import dspy

from knowgap.signatures.answers import STYLES
from knowgap.signatures.types import SourcePassage

NOTE_STYLES = {
    "long": f"{STYLES['long']} Be accurate, engaging, concise, unbiased and journalistic. Use the note alone.",
    "news": f"{STYLES['news']} Write as a news editor, from the note and from what you know yourself.",
}
"""How an answer from a note should be worded where table A4 has a prompt of its own: for ASQA, and for CRUD."""


# Equation 1.
class InitNote(dspy.Signature):
    """Write a note from the passages: everything in them that may help to answer the question.

    The note is one coherent paragraph. It keeps all that is useful for the answer, in the words of the passages. Do
    not write what they lack.
    """

    question: str = dspy.InputField(desc="the question to be answered in the end")
    passages: list[SourcePassage] = dspy.InputField()
    note: str = dspy.OutputField(desc="the note")


# Equation 3.
class ProposeQuestions(dspy.Signature):
    """Going by the note, write two new questions.

    They are used to find passages that supplement the note and help to answer the original question. Write short
    questions, with keywords that are good to search for. Do not repeat a question that was asked before.
    """

    question: str = dspy.InputField(desc="the original question")
    note: str = dspy.InputField(desc="the best note so far")
    asked: list[str] = dspy.InputField(desc="questions asked before")
    questions: list[str] = dspy.OutputField(desc="two new questions")


# Equations 4 and 5.
class UpdateNote(dspy.Signature):
    """Supplement the note with what the passages say that helps to answer the question and is not in the note yet.

    Use the words of the passages, and add as much of this as possible. If there is nothing to add, repeat the note.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="found for questions on what the note lacks")
    best_note: str = dspy.InputField(desc="the note so far")
    note: str = dspy.OutputField(desc="the whole note with the supplements")


# Equation 6.
class CompareNotes(dspy.Signature):
    """Judge whether the new note is better than the best note so far.

    Compare which has the key information that bears directly on the question; which covers all aspects of it; which has
    enough detail to understand the matter; and which is of practical help.

    If the new note adds nothing meaningful to the best note, or only what is redundant, it is not better. It is better
    if it is a significant improvement by these criteria, and else not. Do not explain.
    """

    question: str = dspy.InputField()
    best_note: str = dspy.InputField()
    new_note: str = dspy.InputField()
    better: bool = dspy.OutputField(desc="True if the new note is a significant improvement, else False")


# Equation 9.
class AnswerFromNote(dspy.Signature):
    """Answer the question from the note. Write the answer alone, and no other words."""

    note: str = dspy.InputField()
    question: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
