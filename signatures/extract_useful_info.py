"""Leaf reading: useful statements from passages, each with the passages that support it (MIGRES, section 3.2)."""

import dspy

from knowgap.signatures.types import SourcePassage, Statement

__all__ = ["ExtractUsefulInfo"]


class ExtractUsefulInfo(dspy.Signature):
    """Pick out of the passages what helps to answer the question or one of the queries.

    Write each useful fact as one sentence that can be understood alone, and cite the ids of all passages that say it.
    Say only what the passages say. A fact that settles just a part of the question is useful too.
    When nothing in the passages helps, return an empty list.
    """

    question: str = dspy.InputField(desc="the question to be answered in the end")
    queries: list[str] = dspy.InputField(desc="what is being looked up now")
    passages: list[SourcePassage] = dspy.InputField()
    statements: list[Statement] = dspy.OutputField(desc="useful facts with their source ids; may be empty")
