"""Signatures of the baselines, except those that they share with one another or with the five methods."""

import dspy

from knowgap.signatures.answers import AnswerDirectly
from knowgap.signatures.types import SourcePassage, SubAnswer, optional


# Chain of thought: Wei et al., 2022.
class ReasonDirectly(dspy.Signature):
    """Think the question through step by step, then answer it from your own knowledge."""

    question: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    reasoning: str = optional("the steps, one sentence each")
    answer: str = dspy.OutputField(desc="the answer in the asked style")


# ReAct: Yao et al., 2023.
class AnswerBySearching(AnswerDirectly):
    """Find the answer to the question by searching, and give it in the asked style.

    Search for one fact at a time. Use the names that were found in the next search. Finish as soon as the answer is
    settled, or if searching on would not help.
    """


# Self-Ask: Press et al., 2023.
class FollowUp(dspy.Signature):
    """Decide whether another simple question must be answered before the question can be, and ask it.

    The follow-up question asks for one fact. Use the names that earlier answers gave. Do not repeat a question that was
    asked. If the answers so far settle the question, no follow-up question is needed.
    """

    question: str = dspy.InputField()
    sub_answers: list[SubAnswer] = dspy.InputField(desc="follow-up questions answered so far; may be empty")
    needed: bool = dspy.OutputField(desc="True if a follow-up question is needed")
    query: str = optional("the follow-up question; empty if none is needed")


# IRCoT: Trivedi et al., 2023.
class NextStep(dspy.Signature):
    """Write the next sentence of the reasoning that leads to the answer of the question.

    The sentence states one new fact, with full names. Take it from the passages if they have it. If the question is
    settled with this sentence, set `finished` to True.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    known: list[str] = dspy.InputField(desc="the sentences so far, in order; may be empty")
    reasoning: str = dspy.OutputField(desc="the next sentence, and no more than one")
    finished: bool = optional("True if the reasoning, with this sentence, arrives at the answer", bool)


# Chain-of-Note: Yu et al., 2023.
class ReadingNotes(dspy.Signature):
    """Write a reading note on each passage in turn, then answer the question from the notes.

    If a passage answers the question, note the answer. If it gives background from which the answer follows, note what
    follows. If it does not help, note that, and rely on what you know. Always give your best answer.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    note: str = optional("one line for each passage, with its id, and one on what follows from them")
    answer: str = dspy.OutputField(desc="the answer in the asked style")


# Least-to-Most: Zhou et al., 2023.
class DecomposeInOrder(dspy.Signature):
    """Break the question into the simpler questions that must be answered first, in the order of answering.

    Begin with the easiest. A later one may speak of the answer to an earlier one. Leave out the question itself. If it
    takes only one step, return an empty list.
    """

    question: str = dspy.InputField()
    questions: list[str] = dspy.OutputField(desc="the simpler questions in order; may be empty")


# Least-to-most and Self-Ask: the question after its sub-questions.
class Synthesise(dspy.Signature):
    """Answer the question from the sub-questions and their answers.

    An empty answer means that nothing was found. If a fact is missing, give your best answer.
    """

    question: str = dspy.InputField()
    sub_answers: list[SubAnswer] = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
