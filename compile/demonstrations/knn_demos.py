"""Demonstrations from the training questions nearest to the one that is asked (KNNFewShot), bootstrapped once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy
from dspy.predict.knn import KNN
from dspy.predict.parameter import Parameter

from knowgap.programs.base import Program


class NearestDemos(Parameter):
    """Asks a program with the demonstrations of the training questions nearest to the question.

    DSPy's KNNFewShot runs the program on the nearest examples for every question that is asked. Here each training
    question is run once, in advance, and the same demonstrations are shown.

    Args:
        demos: demonstrations by predictor name, by training question.
        k: how many training questions are near.
        vectorizer: maps texts to an array with one row per text; None for the embedded MiniLM sentence encoder.
    """

    def __init__(
        self, demos: Mapping[str, Mapping[str, Sequence[Any]]], k: int, vectorizer: Callable[[list[str]], Any] | None
    ):
        if vectorizer is None:
            from knowgap.retrieval.minilm import sentence_encoder

            vectorizer = sentence_encoder().encode
        examples = [dspy.Example(question=question).with_inputs("question") for question in demos]
        self.demos = demos
        self._knn = KNN(min(k, len(examples)), examples, vectorizer=vectorizer)  # pyright: ignore[reportArgumentType]

    def ask(self, program: Program, question: str) -> dspy.Prediction:
        """Ask a copy of the program, with the demonstrations of the nearest question last, next to what is asked."""
        nearest = [example.question for example in reversed(self._knn(question=question))]
        program = program.deepcopy()
        for name, predictor in program.named_predictors():
            predictor.demos = [demo for each in nearest for demo in self.demos[each].get(name, [])]
        return program(question=question)

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """All demonstrations, and how many questions are near."""
        return {"k": self._knn.k, "demos": {question: dict(demos) for question, demos in self.demos.items()}}
