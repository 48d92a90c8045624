"""Signatures of answers that several programs ask for and of judging them, the styles of an answer, and "not known"."""

import dspy

from knowgap.signatures.types import SourcePassage, optional

STYLES = {
    "short": (
        "Not a sentence. Only the name, date, number, phrase, or yes or no, as short as possible, and in the words of "
        "the passages if there are any. If several things are asked for, give all of them."
    ),
    "sentence": (
        "One sentence, or a few where the question needs them, in the language of the question, for a reader who does "
        "not see the passages. State only what the passages or the statements say."
    ),
    "long": "A complete answer of several sentences. It covers every reading of the question.",
    "yes_no": "Only yes or no.",
    "news": ("One or two sentences in the language of the question. Give names, dates and figures as the passages do."),
    "choice": "Only the letter of the right option.",
}
"""How an answer should be worded, by task family or reader: the `style` input of every signature that answers."""

UNKNOWN = "unknown"
"""The answer to a sub-question that cannot be answered, and the passage from memory of a model that knows nothing."""


class AnswerDirectly(dspy.Signature):
    """Answer the question from your own knowledge."""

    question: str = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")


# The reading step of retrieval-augmented generation.
class AnswerFromPassages(dspy.Signature):
    """Answer the question with the help of the passages.

    Some passages may not help. If none helps, give your best answer.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")


# BlendFilter, equation 9; the baselines that reason over passages.
class ReasonedAnswer(dspy.Signature):
    """Reason step by step over the passages, then answer the question.

    Take facts from the passages. If a fact is not in them, use your own knowledge. Write one sentence for each step,
    and name who or what it is about. Leave out what the answer does not need.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    reasoning: str = optional("the steps, one sentence each")
    answer: str = dspy.OutputField(desc="the answer in the asked style")


# BlendFilter, appendix B, the last turn; also for an answer that is longer than its style allows.
class ShortenAnswer(dspy.Signature):
    """Give the answer to the question that the text arrives at, in the asked style."""

    question: str = dspy.InputField()
    text: str = dspy.InputField(desc="a sentence that answers, or reasoning that ends in an answer")
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")


# Follow-up questions, such as those to the service.
class CompleteFollowUp(dspy.Signature):
    """Rewrite the follow-up question so that it is understood without the conversation. Do not answer it.

    Put names from the conversation in the place of pronouns and of what is left out, and change nothing else. After
    "Who wrote Emma?" and "Jane Austen", the follow-up question "Where was she born?" becomes "Where was Jane Austen
    born?" A question that names everything stays as it is. Keep its language.
    """

    conversation: str = dspy.InputField(desc="earlier questions and their answers, the oldest first")
    follow_up: str = dspy.InputField(desc="the question to rewrite")
    complete_question: str = dspy.OutputField(desc="the follow-up question with names instead of pronouns")


# The metric Acc† of MIGRES, table 11.
class JudgeAnswer(dspy.Signature):
    """Decide whether the prediction implies the reference answer to the question.

    Other wording, more detail or another format of a date or name is fine; another person, place, time or number is
    not.
    """

    question: str = dspy.InputField()
    prediction: str = dspy.InputField()
    reference: str = dspy.InputField()
    correct: bool = dspy.OutputField(desc="True if the prediction implies the reference")


class WhichPassages(dspy.Signature):
    """Decide for each statement which passages state it.

    A passage states it if someone who reads only this passage knows that the statement is true, in whatever words.
    Another name, number, date or role, or a detail that the passage leaves out, makes it another statement. If only
    several passages together state it, name them all.
    """

    passages: list[SourcePassage] = dspy.InputField()
    statements: list[str] = dspy.InputField()
    sources: list[str] = dspy.OutputField(
        desc="for each statement, in order, the numbers of the passages that state it, such as '1, 3', or 'none'"
    )
