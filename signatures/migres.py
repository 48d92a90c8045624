"""Signatures of MIGRES: useful statements, what is missing, queries for it, and the model's own knowledge.

Source: "LLMs Know What They Need: Leveraging a Missing Information Guided Framework to Empower Retrieval-Augmented
Generation", section 3.2, tables 11, 13 and 14.
"""

import dspy

from knowgap.signatures.types import Grade, SourcePassage, Statement, optional, unsaid


# The leaf module.
class ExtractUsefulInfo(dspy.Signature):
    """Pick out of the passages the facts that help to answer the queries, and cite the passages that state each.

    Write each fact as one sentence that says what it is about. Nothing that the passages do not say may appear. If
    nothing in the passages helps, return an empty list.
    """

    passages: list[SourcePassage] = dspy.InputField()
    queries: list[str] = dspy.InputField(desc="what is to be answered")
    statements: list[Statement] = dspy.OutputField(desc="useful facts with their source ids; may be empty")


# The main module.
class MissingInfo(dspy.Signature):
    """Answer the question from the known statements alone.

    If they do not suffice for an answer, set `answerable` to False, leave the answer empty, explain why, and sum up
    what is missing. Otherwise write an accurate and concise answer, say how sure you are of it, then explain it. If the
    question asks for yes or no, reason from the statements which of the two holds.
    """

    known: list[str] = dspy.InputField(desc="statements collected so far; may be empty")
    question: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answerable: bool = optional("True if the statements suffice, False if they do not", unsaid)
    answer: str = optional("the answer in the asked style; empty if the statements do not suffice")
    confidence: Grade = optional(
        "in the answer, from 1 (not confident, or no answer) to 5 (very confident)", int, ge=1, le=5
    )
    explanation: str = optional("how the statements lead to the answer, or why they do not suffice")
    missing: str = optional("a summary of what is missing; empty if answered")


# The query generator of the retrieval module.
class ProposeQueries(dspy.Signature):
    """Write new queries that ask for the missing information, which the question needs.

    If it takes several steps, break it down into simple queries of one step each. Leave out what is redundant. The new
    queries differ from the question and from the earlier queries.
    """

    question: str = dspy.InputField(desc="the question to be answered in the end")
    asked: list[str] = dspy.InputField(desc="queries asked before")
    known: list[str] = dspy.InputField(desc="statements collected so far")
    missing: str = dspy.InputField(desc="the missing information")
    max_queries: int = dspy.InputField(desc="the most queries to write")
    queries: list[str] = dspy.OutputField(desc="new queries")


# Prompted knowledge (table 11).
class PromptedKnowledge(dspy.Signature):
    """Write relevant information on the queries from what you know.

    If you know nothing about any query, set `knows` to False and write nothing.
    """

    queries: list[str] = dspy.InputField()
    knows: bool = optional("True if you know facts about at least one of the queries", unsaid)
    passage: str = optional("the information; empty if you know none")


# Beyond the paper, as in the released code: the answer after the last iteration.
class LastAnswer(dspy.Signature):
    """Answer the question now: nothing more will be looked up.

    Go by the known statements. Where they leave a gap, use your own knowledge.
    """

    known: list[str] = dspy.InputField(desc="statements collected; may be empty")
    question: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
    confidence: Grade = optional("from 1 (not confident) to 5 (very confident)", int, ge=1, le=5)
    explanation: str = optional("how the answer follows, in one or two sentences")


# Table 5.
class SummarisePassage(dspy.Signature):
    """Summarise in at most three sentences what the passage says about the question.

    Keep names, dates and figures. If nothing in the passage helps, set `relevant` to False and write no summary.
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = optional("True if the passage helps, also if only with a part", unsaid)
    summary: str = optional("at most three sentences; empty if the passage does not help")


# Table 5.
class ExtractSnippet(dspy.Signature):
    """Copy from the passage, word for word, the part that helps to answer the question.

    If no part helps, set `relevant` to False and copy nothing.
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = optional("True if a part helps with the question or a part of it", unsaid)
    snippet: str = optional("words of the passage, unchanged; empty if no part helps")
