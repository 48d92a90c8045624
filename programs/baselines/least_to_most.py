"""Least-to-Most: simpler questions first, each answered with the help of those before."""

from __future__ import annotations

from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer
from knowgap.programs.replies.text import clean_lines, known_text
from knowgap.programs.trace.steps import Answered, Queried
from knowgap.signatures import STYLES, DecomposeInOrder, SubAnswer, Synthesise


class LeastToMost(Program):
    """Break the question into simpler ones, answer them in order, and then the question itself.

    Source: Zhou et al., "Least-to-Most Prompting Enables Complex Reasoning in Large Language Models" (ICLR 2023),
    section 2. A baseline of RA-ISF (tables 1 and 2), where it retrieves nothing; it retrieves nothing here either.
    """

    name = "least_to_most"
    adds: ClassVar = {"sub_answers": []}
    calls = "2 to 6"
    needs_retriever = False

    max_questions = Integer(4, "simpler questions at most", low=1, high=10)

    def __init__(self, retriever: Any = None, **hyperparameters: Any):
        super().__init__(retriever, **hyperparameters)
        self.decompose = dspy.Predict(DecomposeInOrder)
        self.solve = dspy.Predict(Synthesise)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` without passages; the prediction adds `sub_answers`."""
        output = self.ask(self.decompose, question=question)
        questions, _ = clean_lines(output.questions if output is not None else None, self.max_questions, [question])
        self.record(Queried(how="decomposed into", queries=questions))
        sub_answers: list[SubAnswer] = []
        for sub_question in questions:
            answer = self._solve(sub_question, sub_answers, STYLES["short"])
            self.record(Answered(answer=answer))
            sub_answers.append(SubAnswer(question=sub_question, answer=answer))
        answer = self._solve(question, sub_answers, self.wording, last=True)
        return self.conclude(answer, [], sub_answers=sub_answers)

    def _solve(self, question: str, sub_answers: list[SubAnswer], style: str, *, last: bool = False) -> str:
        output = self.ask(self.solve, last=last, question=question, sub_answers=list(sub_answers), style=style)
        return known_text(output)
