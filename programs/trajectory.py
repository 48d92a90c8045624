"""Trajectories of a query tree, and how one of them is selected (RQ-RAG, section 2.3)."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from knowgap.programs.passages import distinct
from knowgap.retrieval.passage import Passage
from knowgap.signatures import Searched

STRATEGIES = ("supported", "perplexity", "confidence", "ensemble")
"""The answer that its passages support best, as the model states; the lowest perplexity of the generated text, the
highest confidence in the answer, and the highest sum of confidences per answer."""


def perplexity(logprobs: Sequence[float]) -> float:
    """PPL of section 2.3: the exponential of the negative mean log-probability of all generated tokens.

    It is 1 if every token is certain, and infinite without tokens.
    """
    return math.exp(min(700.0, -sum(logprobs) / len(logprobs))) if logprobs else math.inf


def probability(logprobs: Sequence[float]) -> float:
    """Conf of section 2.3: the sum of the answer tokens' log-probabilities, here as a probability, 0 to 1."""
    return math.exp(sum(logprobs))


def summed_confidence(answers: Sequence[str], confidences: Sequence[float]) -> dict[str, tuple[float, list[int]]]:
    """The ensemble of section 2.3: for each answer, the sum of its confidences and the indices of the trajectories.

    Answers are equal apart from case, punctuation and articles.
    """
    groups: dict[str, list[int]] = {}
    for i, answer in enumerate(answers):
        groups.setdefault(_normalised(answer), []).append(i)
    return {answer: (sum(confidences[i] for i in group), group) for answer, group in groups.items()}


class BranchReply(NamedTuple):
    """A query or an answer, as a model gave it.

    Attributes:
        text: empty if it cannot be read.
        logprobs: log-probabilities of all tokens of the text; None if they are unknown.
        scored: log-probabilities of the tokens from which the confidence in an answer is computed.
        stated: the confidence that the model states.
        refused: whether the backend refused to give log-probabilities.
    """

    text: str
    logprobs: tuple[float, ...] | None
    scored: tuple[float, ...] | None
    stated: float = 0.0
    refused: bool = False


@dataclass(frozen=True)
class Trajectory:
    """A path from the root of the tree: queries, what each found, and the answer from all of it.

    Attributes:
        path: the actions from the root, joined by "/"; empty at the root.
        searches: one query per action with the passages that it found.
        generated: log-probabilities of the tokens of queries and answer; None if some are unknown.
        answer: None if not asked for yet, empty if none could be read.
        answer_logprobs: log-probabilities of the tokens of the answer; None if unknown.
        stated: the probability that the model states for its answer, 0 to 1.
        refused: whether the backend refused to give log-probabilities.
    """

    path: str = ""
    searches: tuple[tuple[str, tuple[Passage, ...]], ...] = ()
    generated: tuple[float, ...] | None = ()
    answer: str | None = None
    answer_logprobs: tuple[float, ...] | None = None
    stated: float = 0.0
    refused: bool = False

    @property
    def name(self) -> str:
        """The path, or "direct" for the root, which answers without retrieving."""
        return self.path or "direct"

    @property
    def queries(self) -> list[str]:
        """The query of each step."""
        return [query for query, _ in self.searches]

    @property
    def passages(self) -> list[Passage]:
        """What all queries found, each passage once, in the order in which they were found."""
        return distinct(passage for _, found in self.searches for passage in found)

    @property
    def found(self) -> frozenset[str]:
        """The ids of all passages that the queries found."""
        return frozenset(passage.id for passage in self.passages)

    @property
    def searched(self) -> list[Searched]:
        """The queries, each with the numbers from 1 that its passages have in `passages`."""
        numbers = {passage.id: number for number, passage in enumerate(self.passages, start=1)}
        return [Searched(query=query, found=[numbers[p.id] for p in found]) for query, found in self.searches]

    @property
    def perplexity(self) -> float | None:
        """The perplexity of the generated text; None if unknown."""
        return perplexity(self.generated) if self.generated else None

    @property
    def confidence(self) -> float:
        """The probability of the answer's tokens, or the stated one if that is unknown."""
        return self.stated if self.answer_logprobs is None else probability(self.answer_logprobs)

    def to_dict(self) -> dict[str, Any]:
        """The trajectory as a JSON-ready mapping."""
        return {
            "path": self.name,
            "queries": self.queries,
            "answer": self.answer or "",
            "confidence": self.confidence,
            "perplexity": self.perplexity,
            "passages": [passage.id for passage in self.passages],
        }


class Selection(NamedTuple):
    """The selected trajectory and why.

    Attributes:
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
    if strategy == "supported" and any(leaf.stated for leaf in leaves):
        return [leaf.stated for leaf in leaves], False
    perplexities = [leaf.perplexity for leaf in leaves if leaf.perplexity is not None]
    logprobs = [sum(leaf.answer_logprobs) for leaf in leaves if leaf.answer_logprobs is not None]
    if strategy == "perplexity" and len(perplexities) == len(leaves):
        return [-value for value in perplexities], True
    if strategy != "perplexity" and len(logprobs) == len(leaves):
        return [math.exp(value - max(logprobs)) for value in logprobs], True
    return [leaf.stated for leaf in leaves], False


def select_trajectory(strategy: str, leaves: Sequence[Trajectory]) -> Selection | None:
    """Select one of several trajectories, given breadth first.

    Among equal ones (to nine digits), any other is preferred to the root, which read nothing; then the answer that most
    trajectories give, then the longest path, then the earliest. An ensemble selects an answer, then the most confident
    trajectory that gives it.

    Returns:
        The selection, or None if no trajectory has an answer.
    """
    leaves = [leaf for leaf in leaves if leaf.answer]
    if strategy == "supported":  # an answer from memory has no support
        leaves = [leaf for leaf in leaves if leaf.searches] or leaves
    if not leaves:
        return None
    weights, measured = trajectory_weights(strategy, leaves)
    if not measured:
        leaves = [replace(leaf, generated=None, answer_logprobs=None) for leaf in leaves]
    groups = list(summed_confidence([leaf.answer or "" for leaf in leaves], weights).values())
    votes = {i: len(group) for _, group in groups for i in group}
    depths = [len(leaf.searches) for leaf in leaves]
    candidates: Sequence[int] = range(len(leaves))
    if strategy == "ensemble":
        _, candidates = max(
            groups, key=lambda each: (round(each[0], 9), len(each[1]), max(depths[i] for i in each[1]), -each[1][0])
        )
        scores = {leaves[group[0]].answer or "": sum(leaves[i].confidence for i in group) for _, group in groups}
    elif strategy == "perplexity" and measured:
        scores = {leaf.name: -weight for leaf, weight in zip(leaves, weights, strict=True)}
    else:
        scores = {leaf.name: leaf.confidence for leaf in leaves}
    best = max(candidates, key=lambda i: (round(weights[i], 9), depths[i] > 0, votes[i], depths[i], -i))
    return Selection(leaves[best], scores, measured, leaves)


def _normalised(answer: str) -> str:
    """The answer without case, punctuation and English articles, as in the answer metrics, unless nothing is left."""
    letters = "".join(char for char in answer.casefold() if not unicodedata.category(char).startswith("P"))
    return " ".join(word for word in letters.split() if word not in ("a", "an", "the")) or answer
