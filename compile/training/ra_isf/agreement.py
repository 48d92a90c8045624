"""How often a sub-model agrees with its teacher on examples that it has not seen (table 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics import f1
from knowgap.compiling.evaluation.metrics.normalize import normalize_answer
from knowgap.compiling.evaluation.statistics import Interval, mean_interval
from knowgap.compiling.training.ra_isf.labelling import LabelledExample
from knowgap.lms.ra_isf.card import Task
from knowgap.lms.ra_isf.sub_models import DecompositionModel, RelevanceModel, SelfKnowledgeModel, SubModel

__all__ = ["Agreement", "majority_agreement", "measure_agreement"]


class Agreement(BaseModel, extra="forbid"):
    """Agreement with the labels of the teacher, a mean over questions.

    Attributes:
        task: the sub-model.
        same: share of examples with the teacher's label; of decompositions, with the teacher's sub-questions, all of
            them and in order, apart from case and punctuation.
        similar: of decompositions, the F1 of the words of all sub-questions.
    """

    task: Task
    same: Interval
    similar: Interval | None = None

    def rows(self) -> list[tuple[str, Interval]]:
        """What was measured, in words, and its value."""
        if self.similar is None:
            return [("same label as the teacher", self.same)]
        return [
            ("same sub-questions as the teacher", self.same),
            ("F1 of the words of the sub-questions", self.similar),
        ]


def measure_agreement(model: SubModel, examples: Sequence[LabelledExample]) -> Agreement:
    """The agreement of a model with the labels of examples, at least one."""
    if isinstance(model, DecompositionModel):
        questions = [example.question for example in examples]
        return _compare(model.task, examples, model.decompose(questions))
    if isinstance(model, RelevanceModel):
        probabilities = model.relevant([(example.question, example.passage) for example in examples])
    else:
        assert isinstance(model, SelfKnowledgeModel)
        probabilities = model.knows([example.question for example in examples])
    return _compare(model.task, examples, [probability >= model.threshold for probability in probabilities])


def majority_agreement(task: Task, train: Sequence[LabelledExample], examples: Sequence[LabelledExample]) -> Agreement:
    """The agreement of what needs no model: always the most frequent label, or the question itself as sub-question."""
    if task == "decompose":
        return _compare(task, examples, [[example.question] for example in examples])
    [(label, _)] = Counter(str(example.label) for example in train).most_common(1)
    return _compare(task, examples, [label == "True"] * len(examples))


def _compare(task: Task, examples: Sequence[LabelledExample], said: Sequence[bool | list[str]]) -> Agreement:
    same: dict[str, list[float]] = {}
    similar: dict[str, list[float]] = {}
    for example, answer in zip(examples, said, strict=True):
        if isinstance(example.label, list) and isinstance(answer, list):
            one, other = list(map(normalize_answer, answer)), list(map(normalize_answer, example.label))
            same.setdefault(example.question, []).append(float(one == other))
            reference = dspy.Example(answer=" ".join(example.label))
            similar.setdefault(example.question, []).append(f1(reference, dspy.Prediction(answer=" ".join(answer))))
        else:
            same.setdefault(example.question, []).append(float(answer == example.label))
    means = [
        None if not scores else mean_interval([sum(each) / len(each) for each in scores.values()])
        for scores in (same, similar)
    ]
    assert means[0] is not None
    return Agreement(task=task, same=means[0], similar=means[1])
