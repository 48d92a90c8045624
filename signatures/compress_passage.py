"""Passages cut down by the model instead of by a sentence filter (MIGRES, table 5; ALCE's SUMM and SNIPPET)."""

import dspy

__all__ = ["IRRELEVANT", "ExtractSnippet", "SummarisePassage"]

IRRELEVANT = "irrelevant"
"""What the model writes in place of a summary or snippet when the passage does not help."""


class SummarisePassage(dspy.Signature):
    """Summarise in at most three sentences what the passage says about the question.

    Keep names, dates and figures. When the passage does not help, write exactly: irrelevant
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    summary: str = dspy.OutputField(desc="at most three sentences, or exactly: irrelevant")


class ExtractSnippet(dspy.Signature):
    """Copy from the passage, word for word, the part that helps to answer the question.

    When no part helps, write exactly: irrelevant
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    snippet: str = dspy.OutputField(desc="words of the passage, unchanged, or exactly: irrelevant")
