"""Rewrites a follow-up question so that any program can answer it without the conversation before it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import dspy

from knowgap.programs.base import Program
from knowgap.programs.citations import strip_numbers
from knowgap.programs.replies.outputs import known_text
from knowgap.signatures import CompleteFollowUp
from knowgap.signatures.types import SubAnswer

_MARKS = ("?", "？", "؟")


class FollowUp(Program):
    """Completes a follow-up question from the conversation before it; the `answer` is the self-contained question.

    It takes one call of the language model. The question is left unchanged if the reply cannot be read, is not a
    question, copies the conversation, or contains a name that the conversation does not.

    Args:
        said: earlier questions and their answers, the oldest first.

    >>> import dspy, knowgap
    >>> said = [SubAnswer(question="Who designed the Orle Bridge?", answer="Ada Venn")]
    >>> with dspy.context(lm=knowgap.make_lm("extractive")):
    ...     print(FollowUp(said)(question="Where was she born?").answer)
    Where was Ada Venn born?
    """

    name = "follow_up"
    needs_retriever = False

    def __init__(self, said: Sequence[SubAnswer]) -> None:
        super().__init__()
        self.said = list(said)
        self.rewriter = dspy.Predict(CompleteFollowUp)

    def forward(self, question: str) -> dspy.Prediction:
        """Rewrite the question."""
        conversation = "\n".join(f"{turn.question}\n{strip_numbers(turn.answer)}" for turn in self.said)
        output = self.ask(self.rewriter, conversation=conversation, follow_up=question)
        complete = known_text(output, "complete_question").strip()
        return dspy.Prediction(answer=complete if self._fits(complete, question) else question, passages=[])

    def _fits(self, complete: str, question: str) -> bool:
        """Whether a text is a question, copies nothing from the conversation, and contains only names from it."""
        said = [text for turn in self.said for text in (turn.question, turn.answer)]
        names = {word.casefold() for word in re.findall(r"\w+", complete[1:]) if not word[0].islower()}
        heard = {word.casefold() for word in re.findall(r"\w+", " ".join([*said, question]))}
        asks = complete.endswith(_MARKS) or not question.rstrip().endswith(_MARKS)
        return bool(complete) and asks and complete not in said and names <= heard
