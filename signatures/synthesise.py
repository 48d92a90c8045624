"""One answer from the answers to sub-questions (RA-ISF, equation 4)."""

import dspy

from knowgap.signatures.types import SubAnswer

__all__ = ["Synthesise"]


class Synthesise(dspy.Signature):
    """Answer the question from the sub-questions and their answers.

    An answer `unknown` means that nothing was found. Where the sub-answers leave a gap, give your best answer.
    """

    question: str = dspy.InputField()
    sub_answers: list[SubAnswer] = dspy.InputField()
    style: str = dspy.InputField(desc="how the answer should be worded")
    answer: str = dspy.OutputField(desc="the answer in the asked style")
