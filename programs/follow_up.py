"""Rewrites a follow-up question so that any program can answer it without the conversation before it."""

from __future__ import annotations

from collections.abc import Sequence, Set

import dspy

from knowgap.programs.base import Program
from knowgap.programs.replies.text import known_text
from knowgap.programs.statements import strip_numbers
from knowgap.retrieval.words import WORD
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
        words = WORD.findall(complete[1:] if complete[:1].isupper() else complete)
        heard = {word.casefold() for word in WORD.findall(" ".join([*said, question]))}
        asks = complete.endswith(_MARKS) or not question.rstrip().endswith(_MARKS)
        return bool(complete) and asks and complete not in said and all(_is_heard(word, heard) for word in words)


def _is_heard(word: str, heard: Set[str]) -> bool:
    """Whether a word is among those heard, or is no name.

    Without capital letters, names look like other words, so all have to be heard, except for what is added at the end.
    """
    if word[0].islower() or word.casefold() in heard:
        return True
    return not word[0].isupper() and not word[0].isdigit() and word.startswith(tuple(heard))
