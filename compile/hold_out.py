"""Test whether a study's choice is better than the program as it was, on questions that the study has not seen."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from knowgap.compiling.evaluation.results import Evaluation, compare
from knowgap.compiling.evaluation.statistics import SIGNIFICANT
from knowgap.errors import UsageError

T = TypeVar("T")

LEAST = 20
"""The least number of questions to hold out, if there are enough."""


@dataclass(frozen=True)
class Verdict:
    """The result of testing a study's choice against the program as it was.

    `better` is whether the choice is to be used, and `text` the result in one or a few sentences.
    """

    better: bool
    text: str


def split_off(dev: Sequence[T], train: Sequence[T], number: int | None, seed: int) -> tuple[list[T], list[T], list[T]]:
    """Hold out some questions, drawn at random, from a study.

    Args:
        dev: the dev questions.
        train: the training questions.
        number: how many dev questions are held out; no training questions are held out then. With None, a third of the
            dev questions are held out (20 of 40 to 59, none of fewer), and as many training questions as there are dev
            questions: at least 20, but at most a third of the training questions. If these are fewer than 20 questions
            in all, none are held out.
        seed: the seed of the random draw.

    Returns:
        The dev and training questions that are left for the study, and the held-out questions, each in their order.

    Raises:
        UsageError: no dev question would be left for the study.
    """
    size, spare = len(dev), 0
    if number is None:
        number = max(size // 3, LEAST) if size >= 2 * LEAST else 0
        spare = min(max(size, LEAST), len(train) // 3)
        spare = spare if number + spare >= LEAST else 0
    if not 0 <= number <= max(0, size - 1):
        raise UsageError(f"hold_out = {number}: of {size} dev questions, from 0 to {max(0, size - 1)} can be held out")
    left, held_out = list[list[T]](), list[T]()
    for questions, drawn in ((dev, number), (train, spare)):
        held = {*random.Random(seed).sample(range(len(questions)), drawn)}
        left.append([question for place, question in enumerate(questions) if place not in held])
        held_out += [questions[place] for place in sorted(held)]
    return left[0], left[1], held_out


def judge(chosen: str, before: Evaluation, after: Evaluation, *, tolerance: float = 0.0) -> Verdict:
    """Compare the choice of a study with the program as it was.

    The choice is better if its score is higher and the paired permutation test is significant at 5%. With a tolerance,
    which looks for a cheap program, it is also better if it takes fewer calls and its score is no more than the
    tolerance lower. `chosen` names the choice; both evaluations are of the held-out questions.
    """
    found = compare(before, after)
    said = f"{chosen} against the program as it was, on {found.n} questions that were held out: {found}"
    was, now = (evaluation.costs()["lm_calls"] for evaluation in (before, after))
    if tolerance and was is not None and now is not None:
        said += f"; {now:.3g} instead of {was:.3g} LM calls a question"
        if now < was and found.difference >= -tolerance:
            return Verdict(True, f"{said}. It is cheaper, and its score is within {tolerance:g}.")
    if found.difference > 0 and found.p_value < SIGNIFICANT:
        return Verdict(True, f"{said}. It is better.")
    return Verdict(False, f"{said}. It is not better beyond chance, so the program as it was is kept.")
