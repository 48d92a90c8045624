"""The model's own knowledge as a last resort (MIGRES, section 3.2, "LLM Knowledge prompting")."""

import dspy

__all__ = ["UNKNOWN", "PromptedKnowledge"]

UNKNOWN = "unknown"
"""What the model writes when it knows nothing."""


class PromptedKnowledge(dspy.Signature):
    """Write down what you know yourself about the queries, as a short encyclopedia passage.

    State facts with names, dates and places. When you know nothing about any of them, write exactly: unknown
    """

    queries: list[str] = dspy.InputField()
    passage: str = dspy.OutputField(desc="one short paragraph of facts, or exactly: unknown")
