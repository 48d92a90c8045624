"""What Adaptive-Note asks: a first note, questions on what it lacks, an updated note, a comparison, the answer.

Source: "Retriever-and-Memory: Towards Adaptive Note-Enhanced Retrieval-Augmented Generation", section "Methodology".
"""

import dspy

from knowgap.signatures.types import SourcePassage


# Equation 1.
class InitNote(dspy.Signature):
    """Read the passages and write a note that brings together everything in them that may help with the question.

    Take over all information that is useful for the answer, in the words of the passages, and write it as one coherent
    paragraph. What only leads towards the answer is useful too. Leave out what has nothing to do with the question,
    and do not write what the passages lack.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    note: str = dspy.OutputField(desc="the note")


# Equation 3.
class ProposeQuestions(dspy.Signature):
    """Propose two new questions with which to search for what would complete the note and help to answer the question.

    Keep them concise, one fact each, and write the keywords that a search needs: above all the names in the note.
    When the note lacks nothing, ask for what would confirm the answer.
    The two must differ from each other and from the questions asked before.
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


# Equations 4 and 5.
class UpdateNote(dspy.Signature):
    """Extend the note by what the new passages contribute to answering the question.

    Keep what the note holds, but for what the passages correct. Add whatever it does not hold yet and may help, as
    much of it as the passages have, in the passages' own words. Return the whole note.
    """

    question: str = dspy.InputField()
    best_note: str = dspy.InputField(desc="the note so far")
    passages: list[SourcePassage] = dspy.InputField(desc="found for questions on what the note lacks")
    note: str = dspy.OutputField(desc="the whole note, with what is new")


# Equation 6.
class CompareNotes(dspy.Signature):
    """Judge whether the new note is a significant improvement on the best note so far.

    It is not if it adds nothing that matters, or only says again what the best note says. Otherwise weigh: key
    information that bears on the question itself, coverage of all its aspects, detail, practical use for the answer.
    A fact that leads towards the answer, such as a name to search for next, is key information, also without the
    answer.
    """

    question: str = dspy.InputField()
    best_note: str = dspy.InputField()
    new_note: str = dspy.InputField()
    better: bool = dspy.OutputField(desc="True if the new note is a significant improvement, else False")


# Equation 9.
class AnswerFromNote(dspy.Signature):
    """Answer the question from the note, in the asked style and with nothing around it.

    Use the note's own words. Where the note does not settle the question, use what you know and commit to an answer.
    """

    question: str = dspy.InputField()
    note: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
