"""Signatures of BlendFilter: a passage from memory to blend into a query, which passages are relevant, a short answer.

Source: "BlendFilter: Advancing Retrieval-Augmented Large Language Models via Query Generation Blending and Knowledge
Filtering", algorithm 1 and appendix B. The draft (equation 1) and the answer (equation 9) are both `ReasonedAnswer` of
`answers.py`, since appendix B has one prompt for both.
"""

import dspy

from knowgap.signatures.types import SourcePassage, unsaid

EXPECTED_RELEVANT = {False: "one or several", True: "one, several, or none"}
"""How many relevant passages the filter is told to expect; none at all only for StrategyQA (appendix B)."""

_EXPECTED = "how many passages may be relevant"


# Equations 3 and 4.
class InternalKnowledge(dspy.Signature):
    """Write what you know about the question as a short encyclopedia passage.

    Leave out details of which you are not sure, and those that the answer does not need. If you know nothing about it,
    set `knows` to False and write no passage.
    """

    question: str = dspy.InputField()
    knows: bool = dspy.OutputField(desc="True if you know facts that help", default_factory=unsaid)
    passage: str = dspy.OutputField(
        desc="one paragraph with names, dates and places; empty if you know none", default_factory=str
    )


# Equation 7, first turn: reasons.
class ReasonRelevance(dspy.Signature):
    """Go through the passages one by one and say whether each is relevant to the question.

    Use what you know to see which steps the answer takes. A passage is relevant if it states a fact for one of these
    steps. Do not judge by what the passage does not say.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    expected: str = dspy.InputField(desc=_EXPECTED)
    reasoning: str = dspy.OutputField(desc="one line for each passage: its id, relevant or not, and why")


# Equation 7, second turn: ids only.
class FilterKnowledge(dspy.Signature):
    """List the ids of the passages that are relevant to the question, following the assessment."""

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    expected: str = dspy.InputField(desc=_EXPECTED)
    assessment: str = dspy.InputField(desc="what was said about each passage")
    relevant_ids: list[int] = dspy.OutputField(desc="ids only")


# Beyond the paper: both turns of equation 7 in one.
class AssessAndFilter(dspy.Signature):
    """Go through the passages one by one, say whether each is relevant to the question, then list the relevant ones.

    Use what you know to see which steps the answer takes. A passage is relevant if it states a fact for one of these
    steps. Do not judge by what the passage does not say.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    expected: str = dspy.InputField(desc=_EXPECTED)
    reasoning: str = dspy.OutputField(
        desc="one line for each passage: its id, relevant or not, and why", default_factory=str
    )
    relevant_ids: list[int] = dspy.OutputField(desc="ids of the relevant passages")


# Beyond the paper: one passage, one probability.
class KnowledgeRelevance(dspy.Signature):
    """Decide whether the passage is relevant to the question.

    Use what you know to see which steps the answer takes. The passage is relevant if it states a fact for one of them.
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(desc="True if the passage holds a fact that the answer needs")
