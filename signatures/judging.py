"""Signatures that judge answers: what is right, which passages state it, and questions on a text with their answers."""

import dspy

from knowgap.signatures.types import SourcePassage


# The metric Acc† of MIGRES, table 11.
class JudgeAnswer(dspy.Signature):
    """Decide whether the prediction implies the reference answer to the question.

    Other wording, more detail or another format of a date or name is fine; another person, place, time or number is
    not.
    """

    question: str = dspy.InputField()
    prediction: str = dspy.InputField()
    reference: str = dspy.InputField()
    correct: bool = dspy.OutputField(desc="True if the prediction implies the reference")


# RAGQuestEval: CRUD-RAG, Lyu et al., 2024.
class QuestionsOnText(dspy.Signature):
    """Name the key facts of the text, and write for each a question that the text alone answers, in its language."""

    text: str = dspy.InputField()
    questions: list[str] = dspy.OutputField(desc="each about one fact, understandable without the text")


# RAGQuestEval, as above.
class AnswerFromText(dspy.Signature):
    """Answer each question from the text alone, with as few words of it as will do, in its language.

    Where the text does not tell, the answer stays empty.
    """

    text: str = dspy.InputField()
    questions: list[str] = dspy.InputField()
    answers: list[str] = dspy.OutputField(desc="one for each question, in order; empty where the text does not tell")


class WhichPassages(dspy.Signature):
    """Decide for each statement which passages state it.

    A passage states it if someone who reads only this passage knows that the statement is true, in whatever words.
    Another name, number, date or role, or a detail that the passage leaves out, makes it another statement. If only
    several passages together state it, name them all.
    """

    passages: list[SourcePassage] = dspy.InputField()
    statements: list[str] = dspy.InputField()
    sources: list[str] = dspy.OutputField(
        desc="for each statement, in order, the numbers of the passages that state it, such as '1, 3', or 'none'"
    )
