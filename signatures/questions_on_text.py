"""Questions that a text answers, one for each key fact (RAGQuestEval: CRUD-RAG, Lyu et al., 2024)."""

import dspy

__all__ = ["QuestionsOnText"]


class QuestionsOnText(dspy.Signature):
    """Name the key facts of the text, and write for each a question that the text alone answers, in its language."""

    text: str = dspy.InputField()
    questions: list[str] = dspy.OutputField(desc="each about one fact, understandable without the text")
