"""A passage from the model's memory, to search with (BlendFilter, equations 3 and 4)."""

import dspy

__all__ = ["InternalKnowledge"]


class InternalKnowledge(dspy.Signature):
    """Write, from memory, a passage that answers the question, such as an encyclopedia might contain."""

    question: str = dspy.InputField()
    passage: str = dspy.OutputField(desc="one paragraph with names, dates and places")
