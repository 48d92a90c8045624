"""A metric that asks a language model whether an answer is right."""

from __future__ import annotations

from typing import Any

import dspy

from knowgap.compiling.evaluation.metrics.normalize import predicted_answer, reference_answers
from knowgap.programs.replies.asking import ask_until_read
from knowgap.signatures import JudgeAnswer


class JudgedAccuracy:
    """1.0 if a language model finds that the prediction implies a reference, else 0.0 (MIGRES, Acc†, table 11).

    Args:
        lm: the language model that judges; default: the one in DSPy's settings.
    """

    def __init__(self, lm: dspy.BaseLM | None = None) -> None:
        self.lm, self.judge = lm, dspy.Predict(JudgeAnswer)

    def __call__(self, example: Any, prediction: Any, trace: Any = None) -> float:
        """Ask the judge, showing it all acceptable answers.

        A prediction without an answer scores 0 and is not shown; an unreadable verdict scores 0 as well.
        """
        answer = predicted_answer(prediction)
        if answer is None:
            return 0.0
        references = " or ".join(reference_answers(example))
        asked = {"question": example.question, "prediction": answer, "reference": references}
        # Without DSPy's trace: a judge's calls are no demonstrations of a program.
        with dspy.context(trace=None, **({"lm": self.lm} if self.lm is not None else {})):
            verdict = ask_until_read(self.judge, asked).prediction
        return float(verdict is not None and verdict.correct is True)
