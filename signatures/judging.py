"""Signatures of metrics: whether an answer is right, and questions on a text with their answers."""

import dspy


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
