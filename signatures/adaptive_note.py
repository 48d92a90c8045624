"""Signatures of Adaptive-Note: a first note, questions on what it lacks, an updated note, a comparison, the answer.

Source: "Retriever-and-Memory: Towards Adaptive Note-Enhanced Retrieval-Augmented Generation", section "Methodology".
"""

import dspy

from knowgap.signatures.types import SourcePassage


# Equation 1.
class InitNote(dspy.Signature):
    """Write a note of everything in the passages that may help to answer the question.

    Write one paragraph. Write only what the passages say, in their words. Facts that lead towards the answer count.
    Leave out what has nothing to do with the question.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    note: str = dspy.OutputField(desc="the note")


# Equation 3.
class ProposeQuestions(dspy.Signature):
    """Write two new search questions for what the note lacks to answer the question.

    Each asks for one fact, in few words. Use the names that the note gives, and name what you know of the missing
    thing. If the note lacks nothing, ask for what would confirm the answer. Do not repeat a question that was asked
    before.
    """

    question: str = dspy.InputField(desc="the question to be answered in the end")
    note: str = dspy.InputField(desc="the best note so far")
    asked: list[str] = dspy.InputField(desc="questions asked before")
    questions: list[str] = dspy.OutputField(desc="two new questions")


# Equation 3, by a model that may say that nothing is missing.
class CompleteNote(dspy.Signature):
    """Find out what the note lacks, and write at most two search questions for it.

    If the note states every fact that the answer needs, return an empty list. Else ask for the facts that are missing,
    one fact in each question. Use the names that the note gives, and name what you know of the missing thing. Do not
    repeat a question that was asked before.
    """

    question: str = dspy.InputField(desc="the question to be answered in the end")
    note: str = dspy.InputField(desc="the best note so far")
    asked: list[str] = dspy.InputField(desc="questions asked before")
    questions: list[str] = dspy.OutputField(desc="at most two new questions; empty if nothing is missing")


# Equations 1 and 3 in one reply.
class InitNoteAndAsk(dspy.Signature):
    """Write a note of everything in the passages that may help to answer the question, and ask for what it lacks.

    Write the note as one paragraph. Write only what the passages say, in their words. Facts that lead towards the
    answer count. Leave out what has nothing to do with the question.

    If the note states every fact that the answer needs, write no questions. Else write at most two search questions for
    the facts that are missing, one fact in each. Use the names that the note gives, and name what you know of the
    missing thing.
    """

    question: str = dspy.InputField(desc="the question to be answered in the end")
    passages: list[SourcePassage] = dspy.InputField()
    note: str = dspy.OutputField(desc="the note")
    questions: list[str] = dspy.OutputField(desc="at most two; empty if nothing is missing")


# Equations 4, 5 and 3 in one reply.
class UpdateNoteAndAsk(dspy.Signature):
    """Extend the note by what the new passages contribute to answering the question, and ask for what it still lacks.

    Keep everything in the note unless a passage contradicts it. Add every new fact that may help, in the words of the
    passage. If nothing is new, return the note word for word.

    If the note now states every fact that the answer needs, write no questions. Else write at most two search questions
    for the facts that are missing, one fact in each. Use the names that the note gives, and name what you know of the
    missing thing. Do not repeat a question that was asked before.
    """

    question: str = dspy.InputField(desc="the question to be answered in the end")
    best_note: str = dspy.InputField(desc="the note so far; may be empty")
    asked: list[str] = dspy.InputField(desc="questions asked before")
    passages: list[SourcePassage] = dspy.InputField(desc="found for the last of these questions")
    note: str = dspy.OutputField(desc="the whole note, with what is new")
    questions: list[str] = dspy.OutputField(desc="at most two; empty if nothing is missing")


# Equations 4 and 5.
class UpdateNote(dspy.Signature):
    """Extend the note by what the new passages contribute to answering the question.

    Keep everything in the note unless a passage contradicts it. Add every new fact that may help, in the words of the
    passage. If nothing is new, return the note word for word.
    """

    question: str = dspy.InputField()
    best_note: str = dspy.InputField(desc="the note so far")
    passages: list[SourcePassage] = dspy.InputField(desc="found for questions on what the note lacks")
    note: str = dspy.OutputField(desc="the whole note, with what is new")


# Equation 6.
class CompareNotes(dspy.Signature):
    """Judge whether the new note is a significant improvement on the best note so far.

    Compare how much key information each note has for the question, how many of its aspects each covers, how detailed
    each is, and how useful for the answer. A fact that leads towards the answer, such as a name to search for next, is
    key information. A note that only repeats the best note is no improvement.
    """

    question: str = dspy.InputField()
    best_note: str = dspy.InputField()
    new_note: str = dspy.InputField()
    better: bool = dspy.OutputField(desc="True if the new note is a significant improvement, else False")


# Equation 9.
class AnswerFromNote(dspy.Signature):
    """Answer the question from the note. Always give your best answer."""

    question: str = dspy.InputField()
    note: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
