"""Notes on each passage before the answer (Chain-of-Note)."""

import dspy

from knowgap.signatures.types import SourcePassage

__all__ = ["ReadingNotes"]


class ReadingNotes(dspy.Signature):
    """Write a reading note on each passage in turn, then answer the question from the notes.

    A passage may answer the question: note the answer and where it says so. It may give background from which,
    with what you know, the answer can be inferred: note what follows. Or it may be beside the point: note that, and
    rely on what you know. When neither passages nor knowledge settle the question, give your best answer.
    """

    question: str = dspy.InputField()
    passages: list[SourcePassage] = dspy.InputField(desc="may be empty")
    style: str = dspy.InputField(desc="how the answer should be worded")
    note: str = dspy.OutputField(desc="one line for each passage, with its id, and one on what follows from them")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
