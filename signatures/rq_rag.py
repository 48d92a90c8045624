"""Signatures of RQ-RAG: a query that is rewritten, decomposed or disambiguated, and an answer with its confidence.

Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation". Each of them takes all queries of the
path and what each found (equation 2).
"""

import dspy
from pydantic import BaseModel, Field

from knowgap.signatures.types import Probability, SourcePassage, optional


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


# Section 2.1; from the same inputs.
class DecomposeQuery(RewriteQuery):
    """Decompose the question into simpler ones, and write the search query for the one that should be settled next.

    It is understood and answered by itself, and builds on what the earlier queries found, if there are any.
    """

    query: str = dspy.OutputField(desc="one query for one part of the question")


# Section 2.1; from the same inputs.
class DisambiguateQuery(RewriteQuery):
    """Find what is ambiguous in the question, and write a search query that has a single, clear meaning.

    Say which person, work, place or time is meant, narrow down broad terms, or add what earlier queries, if any, found.
    """

    query: str = dspy.OutputField(desc="one unambiguous query")


# Section 2.1, step 3: the teacher's answer, written again from what was retrieved.
class AnswerFromSearches(dspy.Signature):
    """Answer from what the searches found.

    Take every fact from the passages; they may be beside the point, and what only stands in a query is no evidence.
    Without any search, answer from what you know.

    Where the queries ask for several readings of the question, answer each, and say which is which. What the user
    wishes about the form of the answer goes over the style.
    """

    question: str = dspy.InputField()
    searched: list[Searched] = dspy.InputField(desc="queries in order, and what each found; empty if none was needed")
    passages: list[SourcePassage] = dspy.InputField(desc="what they found; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")


# Section 2.3: the stated confidence is used if the model gives no token log-probabilities.
class AnswerWithConfidence(AnswerFromSearches):
    """Answer the question from the passages, and say how well they support the answer.

    Some passages may not help. If none helps, give your best answer. A query is no evidence.

    Confidence: 0.95 if the passages state every fact that the answer needs. 0.75 if one step has to be guessed from
    them. 0.5 if a needed fact, or all of them, comes from memory. 0.25 for a guess. 0 if you do not know.
    """

    searched: list[Searched] = dspy.InputField(desc="queries on the way to the answer, in order; may be empty")
    confidence: Probability = optional("how well the passages support the answer, from 0 to 1", float, ge=0, le=1)


# The teacher that writes the transcripts on which a generator is trained (section 2.1, appendix A.2): one prompt for
# each kind of question (tables 4, 5 and 6).


# Table 4: instructions and single questions.
class PlanSearches(dspy.Signature):
    """Say whether the message needs a search before it can be answered well, and if so, write the search queries.

    A greeting, thanks, a wish about style, and a text to be written or changed need none. Whatever rests on facts of
    the world does; when in doubt, search.

    Each query asks for one thing and is understood by itself: use the terms that an encyclopedia uses, and leave out
    what the search does not need. One query is usually enough. Do not answer the message.
    """

    question: str = dspy.InputField(desc="the message to be answered")
    max_queries: int = dspy.InputField(desc="the number of queries at most")
    search: bool = dspy.OutputField(desc="whether a search is needed")
    queries: list[str] = optional("the search queries; empty if none is needed", list)


# Table 5: questions of several steps.
class QueriesForParts(dspy.Signature):
    """Divide a question of several steps into the search queries that lead to its answer, one after another.

    Each query asks for one fact that the answer needs, and a query that needs an earlier result comes after it. Each is
    understood by itself: where the passages tell who or what is meant, write the name instead of the description
    ("Where was Ada Moor born?" instead of "Where was the painter born?"). But the passages will not be there when the
    searches are made: ask for every fact, also for those that you read there. A comparison needs a query for each side.
    Ask for nothing that the answer does not need, and do not put the answer into a query.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="what is known around the question; may be empty")
    max_queries: int = dspy.InputField(desc="the number of queries at most")
    queries: list[str] = dspy.OutputField(desc="in the order in which they are searched for")


# Table 6: questions that can be read in several ways.
class QueriesForReadings(QueriesForParts):
    """Write one search query for each way in which an ambiguous question can be read.

    Find what has several readings: a name that several people, works or places have, a time that is not said, a word
    that is too broad. Each query is the question in one of these readings, with what tells it from the others (a year,
    a place, a profession, a kind of work), and is understood by itself. The passages show which readings exist; a
    question that has only one gets one query. Do not answer the question.
    """

    passages: list[SourcePassage] = dspy.InputField(desc="what the question itself finds; may be empty")
    queries: list[str] = dspy.OutputField(desc="one for each reading")
