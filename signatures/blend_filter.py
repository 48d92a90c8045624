"""Signatures of BlendFilter: a passage from memory to blend into a query, and which passages are relevant.

Source: "BlendFilter: Advancing Retrieval-Augmented Large Language Models via Query Generation Blending and Knowledge
Filtering", algorithm 1 and appendix B. The draft (equation 1) and the answer (equation 9) are both `ReasonedAnswer` of
`answers.py`, since appendix B has one prompt for both; its last turn is `ShortenAnswer`.
"""

import dspy

from knowgap.signatures.types import SourcePassage

EXPECTED_RELEVANT = {True: "one or several", False: "one, several, or none"}
"""How many relevant passages the filter is told to expect, by whether it has the turn for the topic (appendix B)."""


# Equation 3.
class InternalKnowledge(dspy.Signature):
    """Write a passage that answers the question."""

    question: str = dspy.InputField()
    passage: str = dspy.OutputField(desc="one paragraph")


# Equation 7, first turn: the topic, for HotpotQA and 2WikiMultihopQA.
class QuestionTopic(dspy.Signature):
    """Name the general topic that the question is related to."""

    question: str = dspy.InputField()
    topic: str = dspy.OutputField(desc="a few words")


# Equation 7, second turn: reasons.
class ReasonRelevance(dspy.Signature):
    """Check step by step, one passage after the other, whether it is relevant to the question.

    Go by the passages alone, and forget what you know yourself about the topic, if one is named. Those that are
    relevant are kept, and the others removed.
    """

    question: str = dspy.InputField()
    topic: str = dspy.InputField(desc="may be empty")
    passages: list[SourcePassage] = dspy.InputField()
    expected: str = dspy.InputField(desc="how many passages may be relevant")
    reasoning: str = dspy.OutputField(
        desc="a line for each passage, also a removed one: its id, relevant or not, and why"
    )


# Equation 7, third turn: ids only.
class FilterKnowledge(dspy.Signature):
    """Check one passage after the other whether it is relevant, by the assessment. Write only the relevant ids."""

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    expected: str = dspy.InputField(desc="how many passages may be relevant")
    assessment: str = dspy.InputField(desc="what was said about each passage")
    relevant_ids: list[int] = dspy.OutputField(desc="ids only")
