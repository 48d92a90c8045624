"""What a local model is asked for: text that continues a prompt, or how likely given labels are after it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["GenerationJob", "Job", "Reply", "ScoredToken", "ScoringJob"]


class ScoredToken(NamedTuple):
    """A token of a reply with its log-probability (natural, before temperature), and the most probable ones there."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class Reply(NamedTuple):
    """What a model wrote: its tokens, those that end it included.

    `ended` is False where the reply was cut off at its limit. `scores` is empty unless log-probabilities were asked
    for.
    """

    tokens: list[int]
    ended: bool
    scores: list[ScoredToken]


@dataclass(eq=False)
class GenerationJob:
    """A prompt that is to be continued; `future` gets the `Reply`.

    Attributes:
        ids: tokens of the prompt.
        limit: the most tokens to write, at least 1.
        temperature: 0 takes the most probable token each time; above 0, tokens are drawn.
        top_p, top_k: draw among the most probable tokens only; None is no restriction.
        seed: of the draws of this job alone; None takes another one each time.
        stop: texts that end the reply.
        logprobs: None for no log-probabilities, else how many of the most probable tokens to give beside each one.
        future: resolved by who runs the job. Cancelling it, at any time, lets the job end early.
    """

    ids: list[int]
    limit: int
    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    future: Future[Reply] = field(default_factory=Future)

    @property
    def length(self) -> int:
        """Tokens that the model reads at once."""
        return len(self.ids)


@dataclass(eq=False)
class ScoringJob:
    """A prompt and continuations of it; `future` gets their log-probabilities, one list of token values for each."""

    ids: list[int]
    continuations: list[list[int]]
    future: Future[list[list[float]]] = field(default_factory=Future)

    @property
    def length(self) -> int:
        """Tokens that the model reads at once, for all continuations."""
        return len(self.continuations) * (len(self.ids) + max(map(len, self.continuations)))


Job = GenerationJob | ScoringJob
