"""The model's own knowledge as a last resort (MIGRES, section 3.2, "LLM Knowledge prompting")."""

import dspy

__all__ = ["PromptedKnowledge"]


class PromptedKnowledge(dspy.Signature):
    """Write down what you know yourself about the query, as a short encyclopedia passage.

    State facts with names, dates and places. When you do not know, write exactly: unknown
    """

    query: str = dspy.InputField()
    passage: str = dspy.OutputField(desc="one short paragraph of facts, or exactly: unknown")
