"""Signatures of RQ-RAG: a query that is rewritten, decomposed or disambiguated, and an answer with its confidence.

Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation". Each of them takes all queries of the
path and what each found (equation 2).
"""

import dspy
from pydantic import BaseModel, Field

from knowgap.signatures.types import Probability, SourcePassage


class Searched(BaseModel):
    """A query and which passages it found."""

    query: str
    found: list[int] = Field(default=[], description="ids of the passages that it found, best first")


# Section 2.1.
class RewriteQuery(dspy.Signature):
    """Rewrite the question as a search query that is clearer and more precise, so that a search finds what answers it.

    If there are earlier queries, ask for what they did not find.
    """

    question: str = dspy.InputField()
    searched: list[Searched] = dspy.InputField(desc="earlier queries in order; may be empty")
    passages: list[SourcePassage] = dspy.InputField(desc="what they found; may be empty")
    query: str = dspy.OutputField(desc="one rewritten query")


# Section 2.1.
class DecomposeQuery(dspy.Signature):
    """Decompose the question into simpler ones, and write the search query for the one that should be settled next.

    It is understood and answered by itself, and builds on what the earlier queries found, if there are any.
    """

    question: str = dspy.InputField()
    searched: list[Searched] = dspy.InputField(desc="earlier queries in order; may be empty")
    passages: list[SourcePassage] = dspy.InputField(desc="what they found; may be empty")
    query: str = dspy.OutputField(desc="one query for one part of the question")


# Section 2.1.
class DisambiguateQuery(dspy.Signature):
    """Find what is ambiguous in the question, and write a search query that has a single, clear meaning.

    Say which person, work, place or time is meant, narrow down broad terms, or add what earlier queries, if any, found.
    """

    question: str = dspy.InputField()
    searched: list[Searched] = dspy.InputField(desc="earlier queries in order; may be empty")
    passages: list[SourcePassage] = dspy.InputField(desc="what they found; may be empty")
    query: str = dspy.OutputField(desc="one unambiguous query")


# Section 2.3: the stated confidence is used if the model gives no token log-probabilities.
class AnswerWithConfidence(dspy.Signature):
    """Answer the question from the passages, and say how well they support the answer.

    Some passages may not help. If none helps, give your best answer. A query is no evidence.

    Confidence: 0.95 if the passages state every fact that the answer needs. 0.75 if one step has to be guessed from
    them. 0.5 if a needed fact, or all of them, comes from memory. 0.25 for a guess. 0 if you do not know.
    """

    question: str = dspy.InputField()
    searched: list[Searched] = dspy.InputField(desc="queries on the way to the answer, in order; may be empty")
    passages: list[SourcePassage] = dspy.InputField(desc="what they found; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
    confidence: Probability = dspy.OutputField(
        desc="how well the passages support the answer, from 0 to 1",
        default_factory=float,
        ge=0,
        le=1,
    )
