"""Signatures of RA-ISF: self-knowledge, relevance of passages, sub-questions, and answers.

Source: "RA-ISF: Learning to Answer and Understand from Retrieval Augmentation via Iterative Self-Feedback", section
3.3, appendix A, tables 5 to 9.
"""

import dspy

from knowgap.signatures.types import SourcePassage, SubAnswer, optional


# Section 3.3, M_know; its prompt is in tables 5 to 9.
class SelfKnowledge(dspy.Signature):
    """Say whether you can answer the question from your own knowledge, or need to look something up."""

    question: str = dspy.InputField()
    knows: bool = dspy.OutputField(desc="True if you know the answer")


# Section 3.3 and appendix A.2, M_rel: relevant or irrelevant, one passage at a time.
class PassageRelevance(dspy.Signature):
    """Decide whether the passage is relevant to the question."""

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(desc="True if the passage helps to answer the question")


# Tables 5 and 9, M_rel: all passages in one prompt.
class JointRelevance(dspy.Signature):
    """Decide which passages are relevant to the question, and whether these are sufficient to answer it."""

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    relevant_ids: list[int] = optional("ids of the relevant passages; empty if there is none", list)
    answerable: bool = dspy.OutputField(desc="True if the relevant passages are sufficient to answer the question")


# Section 3.3 and appendix A.3, M_decom; its prompt is in table 5.
class Decompose(dspy.Signature):
    """Break the question down into several simpler sub-questions, and list them.

    Each is answered by itself, without the others, so repeat names.
    """

    question: str = dspy.InputField()
    questions: list[str] = dspy.OutputField(desc="the sub-questions")


# Equations 2, 3 and 4: M given the question alone, with relevant passages, or with sub-questions (tables 5, 6 and 9).
class Solve(dspy.Signature):
    """Give the answer to the question.

    If there are passages, use the knowledge in them. If there are sub-questions, base the answer on the answers to
    these. If there is neither, use your own knowledge.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="relevant to the question; may be empty")
    sub_answers: list[SubAnswer] = dspy.InputField(desc="sub-questions with their answers; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
