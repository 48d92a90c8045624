"""What MIGRES asks: useful statements, what is missing, queries for it, and the model's own knowledge.

Source: "LLMs Know What They Need: Leveraging a Missing Information Guided Framework to Empower Retrieval-Augmented
Generation", section 3.2.
"""

import dspy

from knowgap.signatures.types import SourcePassage, Statement

__all__ = [
    "IRRELEVANT",
    "UNANSWERABLE",
    "ExtractSnippet",
    "ExtractUsefulInfo",
    "LastAnswer",
    "MissingInfo",
    "PromptedKnowledge",
    "ProposeQueries",
    "SummarisePassage",
]

UNANSWERABLE = "unanswerable"
"""The answer of `MissingInfo` while the statements do not suffice."""

IRRELEVANT = "irrelevant"
"""What stands for a summary or snippet of a passage that does not help."""


# Leaf.
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


# Main.
class MissingInfo(dspy.Signature):
    """Answer the question from the known statements alone, or say what is missing.

    Use no knowledge of your own. When the statements suffice, give the answer and leave `missing` empty.
    When they do not, write `unanswerable` as the answer and name in `missing` the facts still needed, using the names
    that are already known instead of describing them.
    """

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField(desc="statements collected so far; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    explanation: str = dspy.OutputField(
        desc="how the statements lead to the answer, or why they do not suffice", default_factory=str
    )
    answer: str = dspy.OutputField(desc="the answer in the asked style, or exactly: unanswerable")
    confidence: int = dspy.OutputField(desc="from 1 (a guess) to 5 (certain)", default_factory=int, ge=1, le=5)
    missing: str = dspy.OutputField(
        desc="the facts still needed, in one sentence; empty if answered", default_factory=str
    )


# The last answer.
class LastAnswer(dspy.Signature):
    """Answer the question now: nothing more will be looked up.

    Prefer the known statements. Where they leave a gap, use what you know yourself. Always give your best answer.
    """

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField(desc="statements collected; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    explanation: str = dspy.OutputField(desc="how the answer follows, in one or two sentences", default_factory=str)
    answer: str = dspy.OutputField(desc="the answer in the asked style")
    confidence: int = dspy.OutputField(desc="from 1 (a guess) to 5 (certain)", default_factory=int, ge=1, le=5)


# Query.
class ProposeQueries(dspy.Signature):
    """Write up to three search queries that ask for the missing information.

    Each query asks for one single fact, in full words: use names that the known statements give instead of describing
    someone ("When was Ada Moor born?", not "When was the director born?"). Split what needs two steps into its steps.
    Do not repeat the question or a query asked before, nor reword one that found nothing.
    """

    question: str = dspy.InputField(desc="the question to be answered in the end")
    known: list[str] = dspy.InputField(desc="statements collected so far")
    missing: str = dspy.InputField(desc="the facts still needed")
    asked: list[str] = dspy.InputField(desc="queries asked before")
    queries: list[str] = dspy.OutputField(desc="one to three new single-fact queries")


# Prompted knowledge.
class PromptedKnowledge(dspy.Signature):
    """Write down what you know yourself about the queries, as a short encyclopedia passage.

    State facts with names, dates and places. When you know nothing about any of them, write exactly: unknown
    """

    queries: list[str] = dspy.InputField()
    passage: str = dspy.OutputField(desc="one short paragraph of facts, or exactly: unknown")


# Table 5; ALCE's SUMM.
class SummarisePassage(dspy.Signature):
    """Summarise in at most three sentences what the passage says about the question.

    Keep names, dates and figures. When the passage does not help, write exactly: irrelevant
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    summary: str = dspy.OutputField(desc="at most three sentences, or exactly: irrelevant")


# Table 5; ALCE's SNIPPET.
class ExtractSnippet(dspy.Signature):
    """Copy from the passage, word for word, the part that helps to answer the question.

    When no part helps, write exactly: irrelevant
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    snippet: str = dspy.OutputField(desc="words of the passage, unchanged, or exactly: irrelevant")
