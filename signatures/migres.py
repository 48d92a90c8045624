"""Signatures of MIGRES: useful statements, what is missing, queries for it, and the model's own knowledge.

Source: "LLMs Know What They Need: Leveraging a Missing Information Guided Framework to Empower Retrieval-Augmented
Generation", section 3.2.
"""

import dspy

from knowgap.signatures.types import SourcePassage, Statement, unsaid


# The leaf module.
class ExtractUsefulInfo(dspy.Signature):
    """Pick out of the passages the facts that help to answer the question or one of the queries.

    Write each fact as one sentence that can be understood alone. Cite the ids of all passages that state it. Write only
    what the passages say. A fact that settles only one step helps. If nothing in the passages helps, return an empty
    list.
    """

    question: str = dspy.InputField(desc="the question to be answered in the end")
    queries: list[str] = dspy.InputField(desc="what is being looked up now")
    passages: list[SourcePassage] = dspy.InputField()
    statements: list[Statement] = dspy.OutputField(desc="useful facts with their source ids; may be empty")


# The leaf module, shown what is known.
class ExtractNewInfo(dspy.Signature):
    """Pick out of the passages the facts that help to answer the question or one of the queries.

    Write each fact as one sentence that can be understood alone. Cite the ids of all passages that state it. Write only
    what the passages say. A fact that connects to something known helps, even if it settles only one step. Leave out
    what is known already. If nothing in the passages helps, return an empty list.
    """

    question: str = dspy.InputField(desc="the question to be answered in the end")
    known: list[str] = dspy.InputField(desc="facts collected so far; may be empty")
    queries: list[str] = dspy.InputField(desc="what is being looked up now")
    passages: list[SourcePassage] = dspy.InputField()
    statements: list[Statement] = dspy.OutputField(desc="new facts with their source ids; may be empty")


# The main module.
class MissingInfo(dspy.Signature):
    """Answer the question from the known statements, or say what is missing.

    You may compare, count and calculate with the statements, and use common knowledge. If the style asks for yes or
    no, work out which of the two holds.

    Explain first. If the statements suffice, give the answer, set `answerable` to True, and leave `missing` empty.
    Otherwise leave `answer` empty, set `answerable` to False, and name the missing facts. Use names from the
    statements.
    """

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField(desc="statements collected so far; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    explanation: str = dspy.OutputField(
        desc="how the statements lead to the answer, or why they do not suffice", default_factory=str
    )
    answer: str = dspy.OutputField(
        desc="the answer in the asked style; empty if the statements do not suffice", default_factory=str
    )
    answerable: bool = dspy.OutputField(
        desc="True if the statements suffice, False if they do not", default_factory=unsaid
    )
    confidence: int = dspy.OutputField(
        desc="in the answer, from 1 (a guess, or no answer) to 5 (certain)", default_factory=int, ge=1, le=5
    )
    missing: str = dspy.OutputField(
        desc="the facts still needed, in one sentence; empty if answered", default_factory=str
    )


# The main and the query module in one reply.
class AnswerOrPlan(dspy.Signature):
    """Answer the question from the known statements, or write search queries for what is missing.

    You may compare, count and calculate with the statements, and use common knowledge. If the style asks for yes or
    no, work out which of the two holds.

    Explain first. If the statements suffice, give the answer, set `answerable` to True, and leave `missing` and
    `queries` empty.

    Otherwise set `answerable` to False, write a guess as `answer` or leave it empty, name the missing facts, and
    write queries for them. Each query asks for one fact. Use names from the statements. If something takes two steps,
    ask only for the first. Some earlier queries found nothing: do not reword them; ask for a fact that leads to the
    missing one, or use another name.
    """

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField(desc="statements collected so far; may be empty")
    asked: list[str] = dspy.InputField(desc="queries asked before, which are not repeated")
    found_nothing: list[str] = dspy.InputField(desc="those of them that found nothing")
    max_queries: int = dspy.InputField(desc="the most queries to write")
    style: str = dspy.InputField(desc="how the answer should be worded")
    explanation: str = dspy.OutputField(
        desc="how the statements lead to the answer, or why they do not suffice", default_factory=str
    )
    answer: str = dspy.OutputField(desc="the answer in the asked style, or a guess; may be empty", default_factory=str)
    answerable: bool = dspy.OutputField(
        desc="True if the statements suffice, False if they do not", default_factory=unsaid
    )
    confidence: int = dspy.OutputField(
        desc="in the answer, from 1 (a guess, or no answer) to 5 (certain)", default_factory=int, ge=1, le=5
    )
    missing: str = dspy.OutputField(
        desc="the facts still needed, in one sentence; empty if answered", default_factory=str
    )
    queries: list[str] = dspy.OutputField(desc="new queries; empty if answered", default_factory=list)


# A second look at the statements alone.
class StatementsSuffice(dspy.Signature):
    """Check whether the statements contain every fact that is needed to answer the question."""

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField(desc="the statements")
    suffices: bool = dspy.OutputField(desc="True if no fact is missing, False if one is")


# The last answer.
class LastAnswer(dspy.Signature):
    """Answer the question now: nothing more will be looked up.

    Prefer the known statements. If they leave a gap, use your own knowledge. Always give your best answer.
    """

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField(desc="statements collected; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    explanation: str = dspy.OutputField(desc="how the answer follows, in one or two sentences", default_factory=str)
    answer: str = dspy.OutputField(desc="the answer in the asked style")
    confidence: int = dspy.OutputField(desc="from 1 (a guess) to 5 (certain)", default_factory=int, ge=1, le=5)


# The last answer, which also sees passages that gave no statement.
class LastLook(dspy.Signature):
    """Answer the question now: nothing more will be looked up.

    Prefer the known statements. If they leave a gap, use what the passages say, then your own knowledge. Always give
    your best answer.
    """

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField(desc="statements collected; may be empty")
    passages: list[SourcePassage] = dspy.InputField(desc="found on the way, and not used so far")
    style: str = dspy.InputField(desc="how the answer should be worded")
    explanation: str = dspy.OutputField(desc="how the answer follows, in one or two sentences", default_factory=str)
    answer: str = dspy.OutputField(desc="the answer in the asked style")
    confidence: int = dspy.OutputField(desc="from 1 (a guess) to 5 (certain)", default_factory=int, ge=1, le=5)


# The query module.
class ProposeQueries(dspy.Signature):
    """Write search queries for the missing information.

    Each query asks for one fact. Use names from the known statements: "When was Ada Moor born?", not "When was the
    director born?". If something takes two steps, ask only for the first. Do not repeat the question or an earlier
    query. Some earlier queries found nothing: do not reword them; ask for a fact that leads to the missing one, or use
    another name.
    """

    question: str = dspy.InputField(desc="the question to be answered in the end")
    known: list[str] = dspy.InputField(desc="statements collected so far")
    missing: str = dspy.InputField(desc="the facts still needed")
    asked: list[str] = dspy.InputField(desc="queries asked before")
    found_nothing: list[str] = dspy.InputField(desc="those of them that found nothing")
    max_queries: int = dspy.InputField(desc="the most queries to write")
    queries: list[str] = dspy.OutputField(desc="new queries")


# Prompted knowledge.
class PromptedKnowledge(dspy.Signature):
    """Write what you know about the queries as a short encyclopedia passage.

    State facts with names, dates and places. If you know nothing about any query, set `knows` to False and write no
    passage.
    """

    queries: list[str] = dspy.InputField()
    knows: bool = dspy.OutputField(
        desc="True if you know facts about at least one of the queries", default_factory=unsaid
    )
    passage: str = dspy.OutputField(
        desc="one short paragraph of these facts; empty if you know none", default_factory=str
    )


# Table 5; ALCE's SUMM.
class SummarisePassage(dspy.Signature):
    """Summarise in at most three sentences what the passage says about the question.

    Keep names, dates and figures. If nothing in the passage helps, set `relevant` to False and write no summary.
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(
        desc="True if the passage helps, also if only with a part", default_factory=unsaid
    )
    summary: str = dspy.OutputField(
        desc="at most three sentences; empty if the passage does not help", default_factory=str
    )


# Table 5; ALCE's SNIPPET.
class ExtractSnippet(dspy.Signature):
    """Copy from the passage, word for word, the part that helps to answer the question.

    If no part helps, set `relevant` to False and copy nothing.
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(
        desc="True if a part helps with the question or a part of it", default_factory=unsaid
    )
    snippet: str = dspy.OutputField(desc="words of the passage, unchanged; empty if no part helps", default_factory=str)
