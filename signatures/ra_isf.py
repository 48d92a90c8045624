"""What RA-ISF asks: self-knowledge, relevance of a passage, sub-questions, and the answer from their answers.

Source: "RA-ISF: Learning to Answer and Understand from Retrieval Augmentation via Iterative Self-Feedback".
The reader is `AnswerFromPassages` of `answers.py`.
"""

import dspy

from knowgap.signatures.types import SubAnswer

__all__ = ["Decompose", "PassageRelevance", "SelfKnowledge", "Synthesise"]


# Section 3.3, M_know.
class SelfKnowledge(dspy.Signature):
    """Decide whether you can answer the question correctly from your own knowledge, without looking anything up.

    Say True only if you are sure of every fact that the answer needs.
    """

    question: str = dspy.InputField()
    knows: bool = dspy.OutputField(desc="True only if sure of the answer")


# Section 3.3, M_rel.
class PassageRelevance(dspy.Signature):
    """Decide whether the passage contains the answer to the question.

    Sharing a name or a topic with the question, or being only a first step towards the answer, is not enough. Where
    the question describes a person or thing without naming it, judge whether the passage is likely to be about it.
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(desc="True only if the passage gives the answer")


# Section 3.3, M_decom.
class Decompose(dspy.Signature):
    """Break the question into simpler questions whose answers together answer it.

    Two to four of them. Each must be understandable alone: repeat names, do not refer to another sub-question or its
    answer. When the question cannot be broken down, return it alone.
    """

    question: str = dspy.InputField()
    questions: list[str] = dspy.OutputField(desc="two to four self-contained sub-questions")


# Equation 4.
class Synthesise(dspy.Signature):
    """Answer the question from the sub-questions and their answers.

    An answer `unknown` means that nothing was found. Where the sub-answers leave a gap, give your best answer.
    """

    question: str = dspy.InputField()
    sub_answers: list[SubAnswer] = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
