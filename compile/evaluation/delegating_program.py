"""A program whose questions are answered by a function: elsewhere, or by a copy that is changed for each question."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import dspy
from dspy.predict.parameter import Parameter

from knowgap.programs.base import Program
from knowgap.programs.streaming import Streamable
from knowgap.retrieval.candidates import CandidateRetriever


class DelegatingProgram(Streamable):
    """Stands in for a program: questions go to a function, everything else is the program's.

    Args:
        program: what is described, copied and configured.
        answer: takes the program and the question, and returns the prediction.
        **parameters: what the function adds to the program's state, so that evaluations tell the two apart.
    """

    def __init__(
        self, program: Program, answer: Callable[[Program, str], dspy.Prediction], **parameters: Parameter
    ) -> None:
        self.program, self.answer, self.parameters = program, answer, parameters

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "program":
            raise AttributeError(name)
        return getattr(self.program, name)

    def __call__(self, *, question: str) -> dspy.Prediction:
        """Answer a question."""
        return self.answer(self.program, question)

    def named_parameters(self) -> list[tuple[str, Any]]:
        """The program's parameters and those of the function."""
        return [*self.program.named_parameters(), *self.parameters.items()]

    def deepcopy(self) -> Any:
        """A copy that answers in the same way."""
        twin = copy.copy(self)
        twin.program = self.program.deepcopy()
        return twin

    def configure(self, **values: Any) -> Any:
        """Set hyperparameters of the program, and return self."""
        self.program.configure(**values)
        return self


if TYPE_CHECKING:
    AnyProgram = Program
else:
    AnyProgram = Program | DelegatingProgram
"""A program, or what stands in for one; type checkers take the two for the same."""


def ask_among(program: Program, index: Any, question: str, ids: Collection[str] | None) -> dspy.Prediction:
    """Ask a copy of a program that searches some passages only, as RQ-RAG's multi-hop tables do.

    Args:
        program: stays as it is.
        index: the program's index, which can search some of its passages only.
        question: what is asked.
        ids: of the passages; None or empty for all.
    """
    if ids:
        program = program.deepcopy()
        program.retriever = CandidateRetriever.within(index, ids)
    return program(question=question)
