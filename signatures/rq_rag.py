"""What RQ-RAG asks: a query that is rewritten, decomposed or disambiguated."""

import dspy

from knowgap.signatures.types import SourcePassage

__all__ = ["DecomposeQuery", "DisambiguateQuery", "RewriteQuery"]


class RewriteQuery(dspy.Signature):
    """Write a better search query for the question: complete, specific, in the words of an encyclopedia.

    Take into account what was searched and found already; do not repeat an earlier query.
    """

    question: str = dspy.InputField()
    searched: list[str] = dspy.InputField(desc="earlier queries; may be empty")
    passages: list[SourcePassage] = dspy.InputField(desc="what they found; may be empty")
    query: str = dspy.OutputField(desc="one rewritten query")


class DecomposeQuery(dspy.Signature):
    """Write a search query for the one part of the question that should be settled next.

    Use names that were found already instead of describing them; do not repeat an earlier query.
    """

    question: str = dspy.InputField()
    searched: list[str] = dspy.InputField(desc="earlier queries; may be empty")
    passages: list[SourcePassage] = dspy.InputField(desc="what they found; may be empty")
    query: str = dspy.OutputField(desc="one query for one part of the question")


class DisambiguateQuery(dspy.Signature):
    """Write a search query that resolves what is ambiguous in the question.

    Settle which person, work, place or time is meant, or ask for the distinction. Where nothing is ambiguous, ask for
    the fact still needed, with full names. Do not repeat an earlier query.
    """

    question: str = dspy.InputField()
    searched: list[str] = dspy.InputField(desc="earlier queries; may be empty")
    passages: list[SourcePassage] = dspy.InputField(desc="what they found; may be empty")
    query: str = dspy.OutputField(desc="one unambiguous query")
