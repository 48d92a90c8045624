"""One more sentence of a chain of thought that is grown between retrievals (IRCoT, FLARE)."""

import dspy

from knowgap.signatures.types import SourcePassage

__all__ = ["NextSentence", "NextStep"]


class NextStep(dspy.Signature):
    """Write the next sentence of the reasoning that leads to the answer of the question.

    One sentence that states one fact, with full names, and goes beyond the sentences so far. Take the fact from the
    passages where they have it. Give the answer only when the reasoning, with this sentence, arrives at it.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    known: list[str] = dspy.InputField(desc="the sentences so far, in order; may be empty")
    reasoning: str = dspy.OutputField(desc="the next sentence, and no more than one")
    answer: str = dspy.OutputField(desc="the answer in a few words once the reasoning arrives at it; empty before")


class NextSentence(dspy.Signature):
    """Write the next sentence of a text that answers the question, and say how sure you are of it.

    One sentence that states one fact, with full names, and goes beyond the sentences so far. Take the fact from the
    passages where they have it. Give the answer only when the text, with this sentence, arrives at it.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    known: list[str] = dspy.InputField(desc="the sentences so far, in order; may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    reasoning: str = dspy.OutputField(desc="the next sentence, and no more than one")
    confidence: float = dspy.OutputField(desc="probability that the sentence is right, from 0 to 1", ge=0, le=1)
    answer: str = dspy.OutputField(desc="the answer in the asked style once the text arrives at it; empty before")
