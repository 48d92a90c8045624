"""A program whose questions are answered by a function: elsewhere, or by a copy that is changed for each question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy

from knowgap.programs.base import Program

__all__ = ["DelegatingProgram"]


class DelegatingProgram:
    """Stands in for a program: questions go to a function, everything else is the program's.

    Args:
        program: what is described, copied and configured.
        answer: takes the program and the question, and returns the prediction.
    """

    def __init__(self, program: Program, answer: Callable[[Program, str], dspy.Prediction]):
        self.program, self.answer = program, answer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "program":
            raise AttributeError(name)
        return getattr(self.program, name)

    def __call__(self, *, question: str) -> dspy.Prediction:
        """Answer a question."""
        return self.answer(self.program, question)

    def deepcopy(self) -> Any:
        """A copy that answers in the same way."""
        return type(self)(self.program.deepcopy(), self.answer)

    def configure(self, **values: Any) -> Any:
        """Set hyperparameters of the program."""
        self.program.configure(**values)
        return self
