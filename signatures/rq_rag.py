"""Signatures of RQ-RAG: a query that is rewritten, decomposed or disambiguated, and an answer with its confidence.

Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation". Each of them takes all queries of the
path and what each found (equation 2).
"""

import dspy
from pydantic import BaseModel, Field

from knowgap.signatures.types import SourcePassage


class Searched(BaseModel):
    """A query and which passages it found."""

    query: str
    found: list[int] = Field(default=[], description="ids of the passages that it found, best first")


# Beyond the paper: the model chooses how to refine, and whether to.
class RefineQuery(dspy.Signature):
    """Write the search queries that are still needed to answer the question.

    If the passages already state every fact that the answer needs, return an empty list. Else write at most
    `max_queries`. If the question has parts, ask for what comes next and was not found yet. Use the names that the
    passages give. If it is not clear who or what is meant, ask for that. Each query asks for one fact, in the words of
    an encyclopedia. Do not repeat an earlier query, and do not put your own answer into a query.
    """

    question: str = dspy.InputField()
    searched: list[Searched] = dspy.InputField(desc="earlier queries in order; may be empty")
    passages: list[SourcePassage] = dspy.InputField(desc="what they found; may be empty")
    max_queries: int = dspy.InputField(desc="the most queries to write")
    queries: list[str] = dspy.OutputField(desc="new queries; empty if nothing is missing")


# Section 2.1.
class RewriteQuery(dspy.Signature):
    """Write a search query that finds more for the question than the question itself, or the earlier queries, did.

    Make it complete and specific, in the words that an encyclopedia uses. Ask for what has not been found yet. If
    everything was found, ask for what would confirm it. Do not put your own answer into it. Do not repeat an earlier
    query.
    """

    question: str = dspy.InputField()
    searched: list[Searched] = dspy.InputField(desc="earlier queries in order; may be empty")
    passages: list[SourcePassage] = dspy.InputField(desc="what they found; may be empty")
    query: str = dspy.OutputField(desc="one rewritten query")


# Section 2.1.
class DecomposeQuery(dspy.Signature):
    """Write a search query for the one part of the question that should be settled next.

    Use the names that were found. If every part is settled, ask for what would confirm the answer. Do not put your own
    answer into the query. Do not repeat an earlier query.
    """

    question: str = dspy.InputField()
    searched: list[Searched] = dspy.InputField(desc="earlier queries in order; may be empty")
    passages: list[SourcePassage] = dspy.InputField(desc="what they found; may be empty")
    query: str = dspy.OutputField(desc="one query for one part of the question")


# Section 2.1.
class DisambiguateQuery(dspy.Signature):
    """Write a search query that resolves what is ambiguous in the question.

    Name the person, work, place or time that is meant. If that was not found, ask which it is. If nothing is ambiguous,
    ask for the fact that is still needed, with full names. Do not put your own answer into the query. Do not repeat an
    earlier query.
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
    them. 0.5 if a needed fact comes from memory. 0.25 for a guess. 0 if you do not know.
    """

    question: str = dspy.InputField()
    searched: list[Searched] = dspy.InputField(desc="queries on the way to the answer, in order; may be empty")
    passages: list[SourcePassage] = dspy.InputField(desc="what they found; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
    confidence: float = dspy.OutputField(
        desc="how well the passages support the answer, from 0 to 1",
        default_factory=float,
        ge=0,
        le=1,
    )
