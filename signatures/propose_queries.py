"""New queries for what is missing (MIGRES, section 3.2)."""

import dspy

__all__ = ["ProposeQueries"]


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
