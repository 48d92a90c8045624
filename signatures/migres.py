"""What MIGRES asks: useful statements, what is missing, queries for it, and the model's own knowledge.

Source: "LLMs Know What They Need: Leveraging a Missing Information Guided Framework to Empower Retrieval-Augmented
Generation", section 3.2.
"""

import dspy

from knowgap.signatures.types import SourcePassage, Statement


def _unsaid() -> None:
    """The value of a judgement that a reply lacks: the text beside it decides, as the judgement does without a text."""


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


# Leaf, which sees what is known.
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


# Main.
class MissingInfo(dspy.Signature):
    """Answer the question from the known statements alone, or say what is missing.

    Use no knowledge of your own. When the statements suffice, set `answerable` to True, give the answer and leave
    `missing` empty. When they do not, set it to False, leave `answer` empty, and name in `missing` the facts still
    needed, using the names that are already known instead of describing them.
    Comparing, counting and calculating with the statements is allowed. Where the style asks for yes or no, reason from
    them which of the two holds: they need not say it.
    """

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField(desc="statements collected so far; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    explanation: str = dspy.OutputField(
        desc="how the statements lead to the answer, or why they do not suffice", default_factory=str
    )
    answerable: bool = dspy.OutputField(
        desc="True if the statements suffice, False if they do not", default_factory=_unsaid
    )
    answer: str = dspy.OutputField(desc="the answer in the asked style; empty if not answerable", default_factory=str)
    confidence: int = dspy.OutputField(
        desc="in the answer, from 1 (a guess, or no answer) to 5 (certain)", default_factory=int, ge=1, le=5
    )
    missing: str = dspy.OutputField(
        desc="the facts still needed, in one sentence; empty if answered", default_factory=str
    )


# Main and Query in one reply.
class AnswerOrPlan(dspy.Signature):
    """Answer the question from the known statements, or write search queries for what is missing.

    You may compare, count and calculate with the statements, and use common knowledge. If the style asks for yes or
    no, work out which of the two holds.

    If the statements suffice, set `answerable` to True, give the answer, and leave `missing` and `queries` empty.
    Otherwise set it to False, leave `answer` empty, name the missing facts, and write queries for them. Each query asks
    for one fact. Use names from the statements. If something takes two steps, ask only for the first. Some earlier
    queries found nothing: do not reword them; ask for a fact that leads to the missing one, or use another name.
    """

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField(desc="statements collected so far; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    asked: list[str] = dspy.InputField(desc="queries asked before, which are not repeated")
    found_nothing: list[str] = dspy.InputField(desc="those of them that found nothing")
    max_queries: int = dspy.InputField(desc="the most queries to write")
    explanation: str = dspy.OutputField(
        desc="how the statements lead to the answer, or why they do not suffice", default_factory=str
    )
    answerable: bool = dspy.OutputField(
        desc="True if the statements suffice, False if they do not", default_factory=_unsaid
    )
    answer: str = dspy.OutputField(desc="the answer in the asked style; empty if not answerable", default_factory=str)
    confidence: int = dspy.OutputField(
        desc="in the answer, from 1 (a guess, or no answer) to 5 (certain)", default_factory=int, ge=1, le=5
    )
    missing: str = dspy.OutputField(
        desc="the facts still needed, in one sentence; empty if answered", default_factory=str
    )
    queries: list[str] = dspy.OutputField(desc="new queries; empty if answered", default_factory=list)


# The last answer.
class LastAnswer(dspy.Signature):
    """Answer the question now: nothing more will be looked up.

    Prefer the known statements. Where they leave a gap, use what you know yourself. Always give your best answer.
    Where the style asks for yes or no, reason which of the two holds.
    """

    question: str = dspy.InputField()
    known: list[str] = dspy.InputField(desc="statements collected; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    explanation: str = dspy.OutputField(desc="how the answer follows, in one or two sentences", default_factory=str)
    answer: str = dspy.OutputField(desc="the answer in the asked style")
    confidence: int = dspy.OutputField(desc="from 1 (a guess) to 5 (certain)", default_factory=int, ge=1, le=5)


# Query.
class ProposeQueries(dspy.Signature):
    """Write search queries that ask for the missing information, `max_queries` of them at most.

    Each query asks for one single fact, in full words: use names that the known statements give instead of describing
    someone ("When was Ada Moor born?", not "When was the director born?"). Of what needs two steps, ask for the first.
    Do not repeat the question or a query asked before. For what is missing although a query that found nothing asked
    for it, do not reword that query: ask for a fact that leads there, or by another name.
    """

    question: str = dspy.InputField(desc="the question to be answered in the end")
    known: list[str] = dspy.InputField(desc="statements collected so far")
    missing: str = dspy.InputField(desc="the facts still needed")
    asked: list[str] = dspy.InputField(desc="queries asked before")
    found_nothing: list[str] = dspy.InputField(desc="those of them that found nothing of use")
    max_queries: int = dspy.InputField(desc="so many new queries at most")
    queries: list[str] = dspy.OutputField(desc="new single-fact queries")


# Prompted knowledge.
class PromptedKnowledge(dspy.Signature):
    """Write down what you know yourself about the queries, as a short encyclopedia passage.

    State facts with names, dates and places. When you know nothing about any of them, set `knows` to False and write
    no passage.
    """

    queries: list[str] = dspy.InputField()
    knows: bool = dspy.OutputField(
        desc="True if you know facts about at least one of the queries", default_factory=_unsaid
    )
    passage: str = dspy.OutputField(
        desc="one short paragraph of these facts; empty if you know none", default_factory=str
    )


# Table 5; ALCE's SUMM.
class SummarisePassage(dspy.Signature):
    """Summarise in at most three sentences what the passage says about the question.

    Keep names, dates and figures. When nothing in the passage helps, set `relevant` to False and write no summary.
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(
        desc="True if the passage helps, also if only with a part", default_factory=_unsaid
    )
    summary: str = dspy.OutputField(
        desc="at most three sentences; empty if the passage does not help", default_factory=str
    )


# Table 5; ALCE's SNIPPET.
class ExtractSnippet(dspy.Signature):
    """Copy from the passage, word for word, the part that helps to answer the question.

    When no part helps, set `relevant` to False and copy nothing.
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(
        desc="True if a part helps with the question or a part of it", default_factory=_unsaid
    )
    snippet: str = dspy.OutputField(desc="words of the passage, unchanged; empty if no part helps", default_factory=str)
