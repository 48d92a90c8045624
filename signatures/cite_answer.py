"""An answer in statements that cite their passages (ALCE, VTG)."""

import dspy

from knowgap.signatures.types import SourcePassage, Statement

__all__ = ["AnswerWithCitations"]


class AnswerWithCitations(dspy.Signature):
    """Answer the question in statements that each cite the passages they rest on.

    Every statement is one self-contained sentence and cites the ids of the passages that say it, as few as suffice.
    Together the statements give the facts that lead to the answer. Passages may be beside the point: cite those that
    help.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    statements: list[Statement] = dspy.OutputField(desc="the facts that lead to the answer, with their source ids")
    answer: str = dspy.OutputField(desc="the answer that follows, in the asked style")
