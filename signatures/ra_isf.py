"""Signatures of RA-ISF: self-knowledge, relevance of passages, sub-questions, and answers from passages or sub-answers.

Source: "RA-ISF: Learning to Answer and Understand from Retrieval Augmentation via Iterative Self-Feedback", section
3.3, appendix A, tables 5 to 9.
"""

import dspy

from knowgap.signatures.types import SourcePassage, SubAnswer

INTERMEDIATE = "Not a sentence. Only the full name or the exact value. Leave it empty if you cannot tell."
"""How the answer to a sub-question is worded: so that the next question can name it."""


# Section 3.3, M_know; its prompt is in tables 5 to 9.
class SelfKnowledge(dspy.Signature):
    """Say whether you can answer the question from your own knowledge, or need to look something up.

    What may have changed since you learnt it counts as not known: who holds an office, for example.
    """

    question: str = dspy.InputField()
    knows: bool = dspy.OutputField(desc="True if you know the answer")


# Section 3.3 and appendix A.2, M_rel: relevant or irrelevant, one passage at a time.
class PassageRelevance(dspy.Signature):
    """Decide whether the passage is relevant to the question.

    It is relevant if it states the answer, or one step on the way to it: for example, who a description in the question
    stands for. A shared name or topic is not enough.
    """

    question: str = dspy.InputField()
    passage: str = dspy.InputField()
    relevant: bool = dspy.OutputField(desc="True if the passage states a fact that helps")


# Tables 5 and 9, M_rel: all passages in one prompt.
class JointRelevance(dspy.Signature):
    """Decide which passages are relevant to the question, and whether these are sufficient to answer it."""

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    relevant_ids: list[int] = dspy.OutputField(
        desc="ids of the relevant passages; empty if there is none", default_factory=list
    )
    answerable: bool = dspy.OutputField(desc="True if the relevant passages are sufficient to answer the question")


# Equation 3.
class AnswerFromRelevant(dspy.Signature):
    """Answer the question from the passages, which were found relevant to it.

    You may join, compare, count and calculate with their facts. If they lack a fact that the answer needs, still write
    your best guess, and set `answerable` to False.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style", default_factory=str)
    answerable: bool = dspy.OutputField(desc="False if a needed fact is missing from the passages, else True")


# Beyond the paper: M_rel and equation 3 in one reply.
class ReadRelevant(dspy.Signature):
    """Find the passages that help to answer the question, and answer it from them.

    A passage helps if it states the answer or one step on the way to it. If the passages lack a fact that the answer
    needs, still write your best guess, and set `answerable` to False.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    relevant_ids: list[int] = dspy.OutputField(desc="ids of the passages that help; may be empty", default_factory=list)
    answer: str = dspy.OutputField(desc="the answer in the asked style", default_factory=str)
    answerable: bool = dspy.OutputField(desc="False if a needed fact is missing from the passages, else True")


# Section 3.3 and appendix A.3, M_decom.
class Decompose(dspy.Signature):
    """Break the question into simpler questions whose answers together answer it.

    Each must be understood alone: repeat names, and do not refer to another sub-question or its answer. If the question
    cannot be broken down, return it alone.
    """

    question: str = dspy.InputField()
    max_questions: int = dspy.InputField(desc="the most questions to write")
    questions: list[str] = dspy.OutputField(desc="simpler questions")


# Beyond the paper: M_decom whose sub-questions build on each other's answers.
class ChainedDecompose(dspy.Signature):
    """Break the question into simpler questions whose answers together answer it.

    Each asks for one fact. Write them in the order in which they can be answered. If one needs the answer to an earlier
    one, write #1 for the answer to the first, #2 for the second, and so on: "Where was #1 born?". Repeat names, so that
    each can be understood alone. Do not ask for what the question says already. If the question cannot be broken down,
    return it alone.
    """

    question: str = dspy.InputField()
    max_questions: int = dspy.InputField(desc="the most questions to write")
    questions: list[str] = dspy.OutputField(desc="simpler questions; #1 stands for the answer to the first")


# Beyond the paper: M_decom that sees what was found for the question.
class DecomposeOpen(dspy.Signature):
    """Write the simpler questions that are still open, so that their answers lead to the answer of the question.

    Each asks for one fact. Do not ask for what the passages or the question say already, and use the names that they
    give. Write them in the order in which they can be answered. If one needs the answer to an earlier one, write #1 for
    the answer to the first, #2 for the second, and so on: "Where was #1 born?". Repeat names, so that each can be
    understood alone. If nothing can be asked, return an empty list.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="found so far; may be empty")
    guess: str = dspy.InputField(desc="what they suggest, which is not certain; may be empty")
    max_questions: int = dspy.InputField(desc="the most questions to write")
    questions: list[str] = dspy.OutputField(desc="open questions; #1 stands for the answer to the first")


# Equation 4.
class Synthesise(dspy.Signature):
    """Answer the question from the sub-questions and their answers.

    An empty answer means that nothing was found. If a fact is missing, give your best answer.
    """

    question: str = dspy.InputField()
    sub_answers: list[SubAnswer] = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")


# Equation 4, by a model that sees the passages of the question as well.
class SynthesiseAll(dspy.Signature):
    """Answer the question from the passages, and from the sub-questions with their answers.

    An empty answer means that nothing was found. If a fact is missing, give your best answer.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="found for the question itself; may be empty")
    sub_answers: list[SubAnswer] = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
