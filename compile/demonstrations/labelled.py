"""Demonstrations that no model has to make: training questions as a program would ask them, with their answers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

import dspy

from knowgap.compiling.evaluation.metrics.answers import cover_em
from knowgap.compiling.evaluation.metrics.retrieval import found_gold
from knowgap.programs.base import Program
from knowgap.retrieval.passage import Passage, gold_name
from knowgap.signatures import SourcePassage
from knowgap.storage.progress import Progress

P = TypeVar("P", bound=Program)

_PASSAGES = 3
"""How many passages a demonstration shows, or more if more hold the evidence. Small models cannot follow longer ones,
and they make every call more expensive."""


class _Labelled(dspy.Module):
    """Replaces a predictor: keeps the inputs of its call, and answers with the reference answer."""

    def __init__(self, answer: str) -> None:
        super().__init__()
        self.answer = answer
        self.asked: dict[str, Any] = {}

    def forward(self, **inputs: Any) -> dspy.Prediction:
        self.asked = inputs
        return dspy.Prediction(answer=self.answer)


def answers_only(program: Program) -> str:
    """The name of a program's only predictor, if it asks for nothing but a short answer; empty otherwise."""
    named = program.named_predictors()
    if len(named) != 1 or program.style not in ("short", "yes_no"):
        return ""
    [(name, predictor)] = named
    signature: Any = predictor.signature
    return name if name in vars(program) and [*signature.output_fields] == ["answer"] else ""


def label_calls(
    program: P, trainset: Sequence[dspy.Example], count: int, *, seed: int = 0, progress: Progress | None = None
) -> P | None:
    """Give a copy of a program demonstrations made of training questions and their reference answers.

    The program is one for which `answers_only` gives a name. A demonstration has the inputs of the predictor's call for
    a training question, with the passages that hold the evidence and a few others, and the reference answer. No
    language model is asked. Questions are taken in random order if all their gold passages are found or, if they name
    none, if the passages contain an answer.

    Returns:
        The copy, with at most `count` demonstrations; None if no question is suitable.
    """
    name = answers_only(program)
    order, copy = list(trainset), program.deepcopy()
    random.Random(seed).shuffle(order)
    demos: list[dspy.Example] = []
    for tried, example in enumerate(order, start=1):
        if len(demos) >= count:
            break
        setattr(copy, name, stand_in := _Labelled(example.answer))
        with dspy.context(lm=None, adapter=None):
            found = copy(question=example.question).passages
        if _is_evident(example, found):
            inputs = _with_fewer_passages(stand_in.asked, example, found)
            demos.append(dspy.Example(augmented=True, **inputs, answer=example.answer))
        if progress is not None:
            progress(tried, 0, "questions labelled")
    if not demos:
        return None
    labelled = program.deepcopy()
    dict(labelled.named_predictors())[name].demos = demos
    return labelled


def _is_evident(example: dspy.Example, found: Sequence[Passage]) -> bool:
    """Whether all gold passages were found; if none are named, whether a passage has an answer or none was found."""
    if gold := example.get("gold_ids"):
        return found_gold((passage.id for passage in found), gold) == {*gold}
    return not found or any(cover_em(example, dspy.Prediction(answer=passage.text)) for passage in found)


def _with_fewer_passages(asked: dict[str, Any], example: dspy.Example, found: Sequence[Passage]) -> dict[str, Any]:
    """The inputs of a call with fewer passages, in their order and renumbered."""
    gold_ids = example.get("gold_ids") or ()
    gold = {place for place, passage in enumerate(found) if gold_name(passage.id, gold_ids) is not None}
    others = [place for place in range(len(found)) if place not in gold][: max(0, _PASSAGES - len(gold))]
    kept = sorted({*gold, *others})
    inputs = dict(asked)
    for name, value in asked.items():
        if isinstance(value, list) and len(value) == len(found) and all(isinstance(p, SourcePassage) for p in value):
            inputs[name] = [value[k].model_copy(update={"id": n}) for n, k in enumerate(kept, start=1)]
    return inputs
