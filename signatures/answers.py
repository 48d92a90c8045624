"""Answers that several programs ask for, the styles of an answer, and the word for "not known"."""

import dspy

from knowgap.signatures.types import SourcePassage

STYLES = {
    "short": (
        "the answer itself in one or a few words, no sentence around it: worded as in what you read, if it stands "
        "there; one name for each thing, not several; numbers, ordinals and titles whole, a number that you work out "
        "in digits; as precise as the question asks, so a year where it asks for a year and the whole date where it "
        "asks for the date"
    ),
    "long": "a complete answer of several sentences that covers every reading of the question",
    "yes_no": "yes or no, nothing else",
    "news": (
        "one or two factual sentences in the language of the question, with names, dates and figures as the passages "
        "give them"
    ),
    "choice": "the letter of the right option, nothing else",
}
"""How an answer should be worded, by task family: the `style` input of every signature that answers."""

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

    Passages may be beside the point: use those that help. When none does, give your best answer.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")


# BlendFilter, equation 9; the baselines that reason over passages.
class ReasonedAnswer(dspy.Signature):
    """Reason step by step over the passages, then answer the question.

    Take facts from the passages where they have them and from your own knowledge where they do not. Name who and what
    each step is about, and leave out what does not matter for the answer.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    reasoning: str = dspy.OutputField(desc="the steps, one sentence each, naming who and what", default_factory=str)
    answer: str = dspy.OutputField(desc="the answer in the asked style")
