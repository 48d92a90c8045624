"""Trajectories of a query tree, and how one of them is selected (RQ-RAG, section 2.3)."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from knowgap.programs.logprobs import perplexity
from knowgap.retrieval.passage import Passage

__all__ = ["STRATEGIES", "Selection", "Trajectory", "select_trajectory", "trajectory_weights"]

STRATEGIES = ("perplexity", "confidence", "ensemble")
"""Lowest perplexity of the generated text, highest confidence in the answer, highest sum of confidences per answer."""


@dataclass(frozen=True)
class Trajectory:
    """A path from the root of the tree: the queries of its steps, their passages, and the answer from these.

    Attributes:
        path: the actions from the root, joined by "/"; empty at the root.
        queries: one per action.
        passages: those found by all queries, each once.
        generated: log-probabilities of the tokens of queries and answer; None if some are unknown.
        answer: empty if none could be read.
        answer_logprob: log-probability of the whole answer; None if unknown.
        stated: the probability that the model states for its answer, 0 to 1.
        refused: whether the backend refused to give log-probabilities.
    """

    path: str = ""
    queries: list[str] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    generated: list[float] | None = field(default_factory=list)
    answer: str = ""
    answer_logprob: float | None = None
    stated: float = 0.0
    refused: bool = False

    @property
    def name(self) -> str:
        """The path, or "direct" for the root, which answers without retrieving."""
        return self.path or "direct"

    @property
    def perplexity(self) -> float | None:
        """The perplexity of the generated text; None if unknown."""
        return perplexity(self.generated) if self.generated else None

    @property
    def confidence(self) -> float:
        """The probability of the answer's tokens, or the stated one if that is unknown."""
        return self.stated if self.answer_logprob is None else math.exp(self.answer_logprob)

    def to_dict(self) -> dict[str, Any]:
        """The trajectory as a JSON-ready mapping."""
        return {
            "path": self.name,
            "queries": self.queries,
            "answer": self.answer,
            "confidence": self.confidence,
            "perplexity": self.perplexity,
            "passages": [passage.id for passage in self.passages],
        }


class Selection(NamedTuple):
    """The selected trajectory and why.

    Attributes:
        best: the selected trajectory.
        scores: perplexity or confidence per path, or summed confidence per answer.
        measured: whether token log-probabilities decided, and not stated confidence.
        leaves: the trajectories that have an answer, with the confidences that decided.
    """

    best: Trajectory
    scores: dict[str, float]
    measured: bool
    leaves: list[Trajectory]


def trajectory_weights(strategy: str, leaves: Sequence[Trajectory]) -> tuple[list[float], bool]:
    """Weigh answered trajectories one by one under a strategy; more is better.

    Returns:
        One weight per trajectory, and whether token log-probabilities gave them: negative perplexities, or confidences
        scaled to a maximum of 1, since the probability of a long answer may be too small for a float. If they are
        unknown for one trajectory, all weights are stated confidences.
    """
    perplexities = [leaf.perplexity for leaf in leaves if leaf.perplexity is not None]
    logprobs = [leaf.answer_logprob for leaf in leaves if leaf.answer_logprob is not None]
    if strategy == "perplexity" and len(perplexities) == len(leaves):
        return [-value for value in perplexities], True
    if strategy != "perplexity" and len(logprobs) == len(leaves):
        return [math.exp(value - max(logprobs)) for value in logprobs], True
    return [leaf.stated for leaf in leaves], False


def select_trajectory(strategy: str, leaves: Sequence[Trajectory]) -> Selection | None:
    """Select one of several trajectories, given breadth first; ties go to the earliest.

    An ensemble sums confidences, as probabilities, over answers that are equal apart from case, punctuation and
    articles, and selects the most confident trajectory of the best answer.

    Returns:
        The selection, or None if no trajectory has an answer.
    """
    leaves = [leaf for leaf in leaves if leaf.answer]
    if not leaves:
        return None
    weights, measured = trajectory_weights(strategy, leaves)
    if not measured:
        leaves = [replace(leaf, generated=None, answer_logprob=None) for leaf in leaves]
    candidates: Sequence[int] = range(len(leaves))
    if strategy == "ensemble":
        groups: dict[str, list[int]] = {}
        for i, leaf in enumerate(leaves):
            groups.setdefault(_normalised(leaf.answer), []).append(i)
        candidates = max(groups.values(), key=lambda group: sum(weights[i] for i in group))
        scores = {leaves[group[0]].answer: sum(leaves[i].confidence for i in group) for group in groups.values()}
    elif strategy == "perplexity" and measured:
        scores = {leaf.name: -weight for leaf, weight in zip(leaves, weights, strict=True)}
    else:
        scores = {leaf.name: leaf.confidence for leaf in leaves}
    return Selection(leaves[max(candidates, key=lambda i: weights[i])], scores, measured, leaves)


def _normalised(answer: str) -> str:
    """The answer without case, punctuation and English articles, as in the answer metrics, unless nothing is left."""
    letters = "".join(char for char in answer.casefold() if not unicodedata.category(char).startswith("P"))
    return " ".join(word for word in letters.split() if word not in ("a", "an", "the")) or answer
