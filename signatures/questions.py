"""Signatures that write questions from passages and check them: one for each kind of question, and the checks."""

import dspy

from knowgap.signatures.types import SourcePassage, SubAnswer, optional

_POSSIBLE = "False if the passages give no good question of this kind; leave the other fields empty then"
_QUESTION = (
    "one sentence that is understood by itself: full names, with what tells them from others of that name; no word of "
    "a passage, text or article"
)
_STEPS = "the facts that lead to the answer, in order: each as a question, with its short answer"


class WriteOneHop(dspy.Signature):
    """Write a question that one fact of the passage answers.

    It is for somebody who searches a large collection, has not seen the passage, and would like to know this. Ask for a
    fact of substance: who, what, where, when, how many. Name whom or what you ask about. There must be one right
    answer, and the question must not give it away.

    A passage that states no such fact, such as a bare list or a menu of links, gives no good question.
    """

    passages: list[SourcePassage] = dspy.InputField(desc="one passage")
    style: str = dspy.InputField(desc="how the answer should be worded")
    possible: bool = dspy.OutputField(desc=_POSSIBLE)
    question: str = optional(_QUESTION)
    answer: str = optional("the answer in the asked style")


class WriteTwoHops(dspy.Signature):
    """Write a question that takes a fact from each of the two passages, one after the other.

    One passage tells who or what something stands for (the link); the other tells a fact about the link, which is the
    answer. Describe the link by what the first passage says of it, and do not name it: "In which town was the designer
    of the Orle Bridge born?" asks for the birthplace of the designer, whom another passage than that of the birthplace
    names. The description must fit one thing only. Everything else is named in full. Neither the link nor the answer
    may stand in the question.

    Whoever has only one of the passages must not find the answer in it. Make sure that the passage with the answer does
    not tell what you describe the link by. When the passages have nothing in common but a topic, there is no good
    question.
    """

    passages: list[SourcePassage] = dspy.InputField(desc="two passages")
    link: str = dspy.InputField(desc="who or what both speak of; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    possible: bool = dspy.OutputField(desc=_POSSIBLE)
    steps: list[SubAnswer] = optional(_STEPS, list)
    question: str = optional(_QUESTION)
    answer: str = optional("the answer in the asked style")


class AnswerIfSettled(dspy.Signature):
    """Answer the question if the passages settle it.

    They settle it if every fact that leads to the answer stands in them, also who or what a description in the question
    stands for. Facts that stand there may be compared, counted and joined. Add nothing from your own knowledge, and
    do not guess: where one fact is missing, the passages do not settle the question, however likely an answer is.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    settled: bool = dspy.OutputField(desc="True if every fact that leads to the answer stands in the passages")
    answer: str = optional("the answer in the asked style; empty if not settled")


class ReadQuestion(dspy.Signature):
    """Say whether a question can be understood by itself, and answer it if you know the answer.

    It can if somebody who knows the field, and sees nothing but the question, could tell whom or what it is about and
    look it up. A description that leads to one thing, such as "the designer of the Orle Bridge", is as good as a name.
    It cannot if it points to something that it does not tell: "the company", "this match", "he", "the second one".

    You know the answer if you could state it without looking it up; a likely guess, or one of two sides at random, is
    not knowledge.
    """

    question: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    clear: bool = dspy.OutputField(desc="True if the question can be understood by itself")
    knows: bool = dspy.OutputField(desc="True if you know the answer")
    answer: str = optional("the answer in the asked style; empty if not known")
