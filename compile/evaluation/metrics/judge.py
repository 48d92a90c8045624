"""Accuracy as a language model judges it (MIGRES, Acc†, table 11)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from knowgap.compiling.evaluation.metrics.normalize import predicted_answer, reference_answers
from knowgap.programs.replies.asking import call_predictor
from knowgap.signatures import JudgeAnswer

__all__ = ["JudgedAccuracy"]


class JudgedAccuracy:
    """1.0 if a language model finds that the prediction implies a reference, else 0.0.

    Args:
        judge: called with `question`, `prediction` and `reference`, returns an object with `correct: bool`; default: a
            `dspy.Predict` of `JudgeAnswer`.
        lm: the language model that judges; default: the one in DSPy's settings.
    """

    def __init__(self, judge: Callable[..., Any] | None = None, lm: dspy.BaseLM | None = None) -> None:
        self.judge = judge or functools.partial(call_predictor, dspy.Predict(JudgeAnswer))
        self.lm = lm

    def __call__(self, example: Any, prediction: Any, trace: Any = None) -> float:
        """Ask the judge once, showing it all acceptable answers.

        A prediction without an answer scores 0 and is not shown; an unreadable verdict scores 0 as well.
        """
        answer = predicted_answer(prediction)
        if answer is None:
            return 0.0
        reference = " or ".join(reference_answers(example))
        # Without a trace, so that the judge's call is no demonstration for the program that is being compiled.
        with dspy.context(trace=None, **({"lm": self.lm} if self.lm is not None else {})):
            try:
                verdict = self.judge(question=example.question, prediction=answer, reference=reference)
            except AdapterParseError:
                return 0.0
        return float(verdict.correct is True)
