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
    """A wrapper of a program: a function answers the questions, and everything else is delegated to the program.

    Args:
        program: the program to which everything else is delegated.
        answer: takes the program and the question, and returns the prediction.
        **parameters: parameters of the function, added to the program's state so that evaluations tell the two apart.
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
"""A program or a `DelegatingProgram`; type checkers see only `Program`."""


def ask_among(program: Program, index: Any, question: str, ids: Collection[str] | None) -> dspy.Prediction:
    """Ask a program a question while it searches only some passages, as RQ-RAG's multi-hop tables do.

    The index must be able to search a subset of its passages; without ids, all are searched.
    """
    if ids:
        program = program.deepcopy()
        program.retriever = CandidateRetriever.within(index, ids)
    return program(question=question)
