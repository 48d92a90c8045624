"""What a text says to a list of questions (RAGQuestEval: CRUD-RAG, Lyu et al., 2024)."""

import dspy

__all__ = ["AnswerFromText"]


class AnswerFromText(dspy.Signature):
    """Answer each question from the text alone, with as few words of it as will do, in its language.

    Where the text does not tell, the answer is: unanswerable.
    """

    text: str = dspy.InputField()
    questions: list[str] = dspy.InputField()
    answers: list[str] = dspy.OutputField(desc="one answer for each question, in their order")
