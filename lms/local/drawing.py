"""Draw the tokens of the rows of a batch, each row by its own settings and its own seed, and say when each one ends.

Both classes are hooks of Transformers' `generate`, which decodes greedily. The scores of a job with a temperature get
Gumbel noise, so that the largest one is that of a token drawn from the distribution. The noise comes from a generator
of that job alone: what it draws does not depend on which others are in its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StopStringCriteria
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from knowgap.lms.local.jobs import GenerationJob, ScoredToken
from knowgap.lms.local.loading import LocalModel

__all__ = ["DrawTokens", "EndRows", "Row"]


@dataclass(eq=False)
class Row:
    """A job of a batch, and how far it is."""

    job: GenerationJob
    written: int = 0
    ended: bool = False
    """By a token that ends replies, or by a stop text."""
    done: bool = False
    scores: list[ScoredToken] = field(default_factory=list)


class DrawTokens(LogitsProcessor):
    """Turn the scores of the rows so that the largest one is the token that is drawn, and record log-probabilities."""

    def __init__(self, rows: Sequence[Row]):
        self._rows = rows
        self._draws = {index: _Draw(row.job) for index, row in enumerate(rows) if row.job.temperature > 0}
        self._recorded = [index for index, row in enumerate(rows) if row.job.logprobs is not None]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Scores have shape (rows, vocabulary)."""
        drawn = scores.clone() if self._draws else scores
        for index, draw in self._draws.items():
            if not self._rows[index].done:
                drawn[index] = draw(input_ids[index : index + 1], scores[index : index + 1].float())[0]
        recorded = [index for index in self._recorded if not self._rows[index].done]
        if recorded:
            logprobs = scores[recorded].float().log_softmax(-1)
            for index, values, token in zip(recorded, logprobs, drawn[recorded].argmax(-1).tolist(), strict=True):
                row = self._rows[index]
                best = values.topk(min(row.job.logprobs or 0, len(values)))
                top = tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))
                row.scores.append(ScoredToken(token, float(values[token]), top))
        return drawn


class _Draw:
    """The draws of one job."""

    def __init__(self, job: GenerationJob):
        import torch

        self._restrict = LogitsProcessorList([TemperatureLogitsWarper(float(job.temperature))])
        if job.top_k is not None:
            self._restrict.append(TopKLogitsWarper(job.top_k))
        if job.top_p is not None and job.top_p < 1:
            self._restrict.append(TopPLogitsWarper(job.top_p))
        self._random = torch.Generator()  # on the CPU, so that a seed means the same on every device
        if job.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(job.seed)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        noise = -torch.empty(scores.shape).exponential_(generator=self._random).log()
        return self._restrict(input_ids, scores) + noise.to(scores.device)


class EndRows(StoppingCriteria):
    """Say which rows are at their end: a token that ends replies, a stop text, their own limit, or a cancelled job."""

    def __init__(self, local: LocalModel, rows: Sequence[Row], prompt: int):
        self._ends, self._rows, self._prompt = set(local.end_ids), rows, prompt
        stops = {row.job.stop for row in rows if row.job.stop}
        self._stops = {stop: StopStringCriteria(local.tokenizer, list(stop)) for stop in stops}

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """Ids have shape (rows, prompt and what is written)."""
        import torch

        running = [index for index, row in enumerate(self._rows) if not row.done]
        tokens = input_ids[:, -1].tolist()
        for index in running:
            row = self._rows[index]
            row.written += 1
            row.ended = tokens[index] in self._ends
        for stop, criterion in self._stops.items():
            indices = [index for index in running if self._rows[index].job.stop == stop]
            if indices:
                for index, stopped in zip(indices, criterion(input_ids[indices, self._prompt :], scores), strict=True):
                    self._rows[index].ended |= bool(stopped)
        for index in running:
            row = self._rows[index]
            row.done = row.ended or row.written >= row.job.limit or row.job.future.cancelled()
        return torch.tensor([row.done for row in self._rows], device=input_ids.device)
