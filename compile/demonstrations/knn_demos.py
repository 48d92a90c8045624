"""Demonstrations from the training questions nearest to the one that is asked (KNNFewShot), bootstrapped once."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy
from dspy.predict.knn import KNN

from knowgap.programs.base import Program

__all__ = ["NearestDemonstrations", "embedded_vectorizer"]


class NearestDemonstrations:
    """Gives a program, for every question anew, the demonstrations of the nearest training questions.

    DSPy's KNNFewShot runs the program on the nearest examples for every question that is asked; here each training
    question is run once, beforehand, and the same demonstrations are shown.

    Args:
        table: demonstrations by predictor name, by training question.
        k: how many training questions count as near.
        vectorizer: texts to vectors; `embedded_vectorizer()` is the embedded MiniLM encoder.
    """

    def __init__(
        self,
        table: Mapping[str, Mapping[str, Sequence[Any]]],
        k: int,
        vectorizer: Callable[[list[str]], Any],
    ):
        examples = [dspy.Example(question=question).with_inputs("question") for question in table]
        self.table, self._knn = table, KNN(min(k, len(examples)), examples, vectorizer=vectorizer)  # pyright: ignore[reportArgumentType]

    def demonstrations(self, question: str) -> dict[str, list[Any]]:
        """Demonstrations by predictor name, those of the nearest question last, next to what is asked."""
        found: dict[str, list[Any]] = {}
        for example in reversed(self._knn(question=question)):
            for name, demos in self.table[example.question].items():
                found.setdefault(name, []).extend(demos)
        return found

    def bind(self, program: Program) -> Program:
        """Let the program look its demonstrations up while it runs, and return it."""
        vars(program)["forward"] = types.MethodType(self._forward, program)
        return program

    def _forward(self, program: Program, question: str) -> dspy.Prediction:
        asked = program.deepcopy()
        del vars(asked)["forward"]
        demos = self.demonstrations(question)
        for name, predictor in asked.named_predictors():
            predictor.demos = demos.get(name, [])
        return type(program).forward(asked, question)  # pyright: ignore[reportAttributeAccessIssue]

    def __deepcopy__(self, memo: dict[int, Any]) -> NearestDemonstrations:
        return self


def embedded_vectorizer() -> Callable[[list[str]], Any]:
    """The embedded MiniLM sentence encoder, as DSPy's KNN takes it."""
    from knowgap.retrieval.minilm import sentence_encoder

    return lambda texts: sentence_encoder().encode(list(texts))
