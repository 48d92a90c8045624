"""Batches of prompts for one local model: gathered from many threads, filled up to one length, and run.

A thread runs while there are jobs. Those that come while a batch is under way form the next one. Greedy jobs with the
same stop texts share a batch, and so do jobs that score labels; a job that draws tokens runs alone, with a seed of its
own.
"""

from __future__ import annotations

import copy
import inspect
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from knowgap.lms.local.loading import LocalModel

MAX_BATCH_TOKENS = 32_768
"""Tokens of the prompts of a batch, filled up to one length, unless a single one is longer."""
_QUIET, _LONGEST_GATHERING = 0.01, 0.1
"""A batch that is not full begins after so many seconds without a new job, and at the latest after so many."""


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
class Job:
    """A prompt that is to be continued, or continuations of it that are to be scored.

    Attributes:
        ids: tokens of the prompt.
        limit: the most tokens to write, at least 1.
        sampling: `temperature`, and perhaps `top_p` and `top_k`, as Transformers takes them; empty to decode greedily.
        seed: the seed of the draws; None takes another one each time.
        stop: texts that end the reply.
        logprobs: None for no log-probabilities, else how many of the most probable tokens to give beside each one.
        continuations: if there are any, they are scored, and nothing is written.
        future: gets the `Reply`, or for each continuation the log-probabilities of its tokens. Once it is cancelled,
            the job ends early.
    """

    ids: list[int]
    limit: int = 1
    sampling: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    continuations: list[list[int]] = field(default_factory=list)
    future: Future[Any] = field(default_factory=Future)

    @property
    def length(self) -> int:
        """Tokens that the model reads at once."""
        return max(1, len(self.continuations)) * (len(self.ids) + max(map(len, self.continuations), default=0))

    @property
    def kind(self) -> object:
        """Jobs of the same kind can share a batch."""
        return id(self) if self.sampling else (bool(self.continuations), self.stop)


class Batcher:
    """Runs jobs on a model in batches, in the order in which they come.

    Args:
        local: the model.
        size: the most jobs in a batch. A batch that the memory of the device does not hold is run in halves.
    """

    def __init__(self, local: LocalModel, size: int):
        self._local, self._size = local, size
        self._lock = threading.Lock()
        self._waiting: list[Job] = []
        self._running = False

    def submit(self, job: Job) -> Future[Any]:
        """Let a job wait for its batch; return its future, which can be cancelled at any time."""
        with self._lock:
            self._waiting.append(job)
            begin, self._running = not self._running, True
        if begin:
            threading.Thread(target=self._work, name="knowgap-local-model", daemon=True).start()
        return job.future

    def _work(self) -> None:
        while True:
            end, waiting = time.monotonic() + _LONGEST_GATHERING, -1
            while waiting < len(self._waiting) < self._size and time.monotonic() < end:
                waiting = len(self._waiting)
                time.sleep(_QUIET)
            batch = self._take()
            if batch:
                self._run(batch)
                continue
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return

    def _take(self) -> list[Job]:
        """Remove the next batch from those that wait: the first job, and those of about its length before others."""
        with self._lock:
            self._waiting = [job for job in self._waiting if not job.future.cancelled()]
            batch = self._waiting[:1]
            alike = [job for job in self._waiting[1:] if job.kind == batch[0].kind]
            for job in sorted(alike, key=lambda job: abs(job.length - batch[0].length)):
                longest = max(job.length, *(other.length for other in batch))
                if len(batch) == self._size or longest * (len(batch) + 1) > MAX_BATCH_TOKENS:
                    break
                batch.append(job)
            self._waiting = [job for job in self._waiting if job not in batch]
            return batch

    def _run(self, batch: Sequence[Job]) -> None:
        import torch

        run = score if batch[0].continuations else generate
        try:
            results: Sequence[Any] = run(self._local, batch)
        except torch.OutOfMemoryError as error:
            if len(batch) > 1:
                half = len(batch) // 2
                self._run(batch[:half])
                self._run(batch[half:])
                return
            results = [error]
        except BaseException as error:  # it is that of every job of the batch
            results = [error] * len(batch)
        for job, result in zip(batch, results, strict=True):
            with suppress(InvalidStateError):  # the job was cancelled
                if isinstance(result, BaseException):
                    job.future.set_exception(result)
                else:
                    job.future.set_result(result)


def generate(local: LocalModel, jobs: Sequence[Job]) -> list[Reply]:
    """Reply to jobs of one kind in one batch.

    Prompts of a causal model are filled up on the left, those of a sequence-to-sequence model on the right; what is
    filled up is masked and has no positions, so a job gets the reply that it would get alone, up to the rounding of
    floating-point sums.
    """
    import torch
    from transformers import LogitsProcessorList, StoppingCriteriaList

    ids, mask = pad_rows([job.ids for job in jobs], local.pad_id, left=not local.is_seq2seq, device=local.device)
    prompt = 1 if local.is_seq2seq else ids.shape[1]
    steps = _Steps(jobs, prompt)
    first = jobs[0]
    stops: dict[str, Any] = {"stop_strings": list(first.stop), "tokenizer": local.tokenizer} if first.stop else {}
    devices = [local.device] if local.device.type == "cuda" else []
    with torch.inference_mode(), torch.random.fork_rng(devices) if first.sampling else nullcontext():
        if first.sampling:
            torch.manual_seed(torch.seed() if first.seed is None else first.seed)
        output = local.model.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=_settings(local, max(job.limit for job in jobs), first.sampling),
            logits_processor=LogitsProcessorList([steps.before]),
            stopping_criteria=StoppingCriteriaList([steps.after]),
            **stops,
        )
    steps.record(output)
    return [steps.reply(local, index, row) for index, row in enumerate(output[:, prompt:].tolist())]


def _settings(local: LocalModel, limit: int, sampling: dict[str, Any]) -> Any:
    """The model's own settings for decoding at most `limit` tokens.

    What its checkpoint says about drawing tokens is left out; what it says about special tokens, penalties and
    forbidden tokens stays.
    """
    config = copy.deepcopy(local.model.generation_config)
    drawing = {"temperature": None, "top_p": None, "top_k": 0 if sampling else None, **sampling}
    config.update(
        do_sample=bool(sampling), **drawing, min_p=None, typical_p=None, num_beams=1, max_length=None, min_length=None,
        max_new_tokens=limit, eos_token_id=list(local.end_ids) or None, pad_token_id=local.pad_id,
        num_return_sequences=1, return_dict_in_generate=False,
    )  # fmt: skip
    return config


class _Steps:
    """Hooks of Transformers' `generate`: they end rows at their limits, and record log-probabilities.

    A token's log-probability is taken from the scores of its step when the next step begins, since it is drawn only
    after the hooks have run.
    """

    def __init__(self, jobs: Sequence[Job], prompt: int):
        self._jobs, self._prompt = jobs, prompt
        self._recorded = [index for index, job in enumerate(jobs) if job.logprobs is not None]
        self._scores: list[list[ScoredToken]] = [[] for _ in jobs]
        self._last: Any = None

    def before(self, input_ids: Any, scores: Any) -> Any:
        """Keep the scores of a step, of shape (rows, vocabulary)."""
        if self._recorded:
            self.record(input_ids)
            self._last = scores[self._recorded].float().log_softmax(-1)
        return scores

    def after(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Say which rows are at their limit or cancelled."""
        import torch

        written = input_ids.shape[1] - self._prompt
        ended = [written >= job.limit or job.future.cancelled() for job in self._jobs]
        return torch.tensor(ended, device=input_ids.device)

    def record(self, input_ids: Any) -> None:
        """Record the log-probabilities of the tokens that the last step wrote."""
        if self._last is None:
            return
        for index, values, token in zip(
            self._recorded, self._last, input_ids[self._recorded, -1].tolist(), strict=True
        ):
            best = values.topk(min(self._jobs[index].logprobs or 0, len(values)))
            top = tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))
            self._scores[index].append(ScoredToken(token, float(values[token]), top))
        self._last = None

    def reply(self, local: LocalModel, index: int, written: list[int]) -> Reply:
        """The reply of a row, without what fills it up after its end."""
        job = self._jobs[index]
        end = next((place for place, token in enumerate(written) if token in local.end_ids), None)
        tokens = written[: job.limit if end is None else min(end + 1, job.limit)]
        ended = end is not None and end < job.limit
        if job.stop and not ended:
            decoded = (local.tokenizer.decode(tokens[:count]) for count in range(1, len(tokens) + 1))
            stopped = next((n for n, text in enumerate(decoded, 1) if any(stop in text for stop in job.stop)), None)
            tokens, ended = tokens[:stopped], stopped is not None
        return Reply(tokens, ended, self._scores[index][: len(tokens)])


def pad_rows(rows: Sequence[Sequence[int]], pad: int, *, left: bool, device: Any) -> tuple[Any, Any]:
    """Fill rows of tokens up to one length: ids and mask, both of shape (rows, longest)."""
    import torch

    longest = max(map(len, rows))
    filled = [([pad] * (longest - len(row)), [0] * (longest - len(row))) for row in rows]
    ids = [[*fill, *row] if left else [*row, *fill] for row, (fill, _) in zip(rows, filled, strict=True)]
    mask = [[*b, *[1] * len(row)] if left else [*[1] * len(row), *b] for row, (_, b) in zip(rows, filled, strict=True)]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def score(local: LocalModel, jobs: Sequence[Job]) -> list[list[list[float]]]:
    """The log-probabilities of the tokens of each continuation of each job, in one pass over all of them."""
    import torch

    pairs = [(job.ids, tokens) for job in jobs for tokens in job.continuations]
    with torch.inference_mode():
        scores = iter((_seq2seq_scores if local.is_seq2seq else _causal_scores)(local, pairs))
    return [[next(scores) for _ in job.continuations] for job in jobs]


def _causal_scores(local: LocalModel, pairs: Sequence[tuple[list[int], list[int]]]) -> list[list[float]]:
    rows = [[*prompt, *tokens] for prompt, tokens in pairs]
    ids, mask = pad_rows(rows, local.pad_id, left=True, device=local.device)
    accepted = inspect.signature(local.model.forward).parameters
    inputs = {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)} if "position_ids" in accepted else {}
    if "logits_to_keep" in accepted:  # those of the continuations, and of the token before them
        inputs["logits_to_keep"] = 1 + max(len(tokens) for _, tokens in pairs)
    logits = local.model(input_ids=ids, attention_mask=mask, use_cache=False, **inputs).logits
    return [_token_scores(row[-1 - len(tokens) : -1], tokens) for row, (_, tokens) in zip(logits, pairs, strict=True)]


def _seq2seq_scores(local: LocalModel, pairs: Sequence[tuple[list[int], list[int]]]) -> list[list[float]]:
    ids, mask = pad_rows([prompt for prompt, _ in pairs], local.pad_id, left=False, device=local.device)
    start = local.model.generation_config.decoder_start_token_id
    start = local.model.config.decoder_start_token_id if start is None else start
    written, _ = pad_rows([[start, *tokens] for _, tokens in pairs], local.pad_id, left=False, device=local.device)
    logits = local.model(input_ids=ids, attention_mask=mask, decoder_input_ids=written, use_cache=False).logits
    return [_token_scores(row[: len(tokens)], tokens) for row, (_, tokens) in zip(logits, pairs, strict=True)]


def _token_scores(logits: Any, tokens: Sequence[int]) -> list[float]:
    """Log-probabilities of tokens; `logits` has shape (tokens, vocabulary)."""
    scores = logits.float().log_softmax(-1)
    return [float(scores[position, token]) for position, token in enumerate(tokens)]
