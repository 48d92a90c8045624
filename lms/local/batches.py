"""Batches of prompts for one local model: gathered from many threads, padded to one length, and run.

A thread runs while there are jobs. Those that come while a batch is under way form the next one. Greedy jobs share a
batch, and so do jobs that score labels; a job that draws tokens runs alone, with a seed of its own.
"""

from __future__ import annotations

import copy
import inspect
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from knowgap.lms.local.loading import LocalModel

MAX_BATCH_TOKENS = 32_768
"""The most tokens of the padded prompts of a batch, unless a single prompt is longer."""
_STOP_TOKENS = 24
"""Tokens at the end of a reply among which a stop text is looked for."""
_LOOP, _PERIOD = 96, 24
"""A reply is in a loop if its last 96 tokens repeat a sequence of at most 24."""
_QUIET, _LONGEST_GATHERING = 0.01, 0.1
"""The seconds without a new job, and the most seconds in all, after which a batch that is not full begins."""


class Reply(NamedTuple):
    """What a model wrote: its tokens, the one that ends it included.

    `ended` is False if the reply was cut off at its limit, or in a loop. `logprobs` has the natural log-probability of
    each token before temperature, if they were asked for.
    """

    tokens: list[int]
    ended: bool
    logprobs: list[float]


@dataclass(eq=False)
class Job:
    """A prompt that is to be continued, or continuations of it that are to be scored.

    Attributes:
        ids: tokens of the prompt.
        limit: the most tokens to write, at least 1.
        stop: texts of which the first one that is written ends the reply.
        sampling: `temperature`, and perhaps `top_p` and `top_k`, as Transformers takes them; empty to decode greedily.
        seed: the seed of the draws; None takes another one each time.
        logprobs: whether to give log-probabilities.
        continuations: if there are any, they are scored, and nothing is written.
        future: gets the `Reply`, or for each continuation the log-probabilities of its tokens.
    """

    ids: list[int]
    limit: int = 1
    stop: tuple[str, ...] = ()
    sampling: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    logprobs: bool = False
    continuations: list[list[int]] = field(default_factory=list)
    future: Future[Any] = field(default_factory=Future)

    @property
    def length(self) -> int:
        """Tokens that the model reads at once."""
        return max(1, len(self.continuations)) * (len(self.ids) + max(map(len, self.continuations), default=0))

    @property
    def kind(self) -> object:
        """Jobs of the same kind can share a batch."""
        return id(self) if self.sampling else (bool(self.continuations), self.logprobs)


class Batcher:
    """Runs jobs on a model in batches, in the order in which they come.

    Args:
        local: the model.
        size: the most jobs in a batch. A batch that does not fit into the device's memory is run in halves.
    """

    def __init__(self, local: LocalModel, size: int):
        self.local, self._size = local, size
        self._lock = threading.Lock()
        self._waiting: list[Job] = []
        self._running = False

    def run(self, jobs: Sequence[Job]) -> list[Any]:
        """Run jobs, and wait for their results."""
        with self._lock:
            self._waiting += jobs
            begin, self._running = not self._running, True
        if begin:
            threading.Thread(target=self._work, name="knowgap-local-model", daemon=True).start()
        return [job.future.result() for job in jobs]

    def _work(self) -> None:
        while True:
            end, waiting = time.monotonic() + _LONGEST_GATHERING, -1
            while waiting < len(self._waiting) < self._size and time.monotonic() < end:
                waiting = len(self._waiting)
                time.sleep(_QUIET)
            with self._lock:
                batch = self._take()
                self._running = bool(batch)
            if not batch:
                return
            self._run(batch)

    def _take(self) -> list[Job]:
        """Remove the next batch from the queue: the first job, and jobs of its kind, the closest in length first."""
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
            for job, result in zip(batch, run(self.local, batch), strict=True):
                job.future.set_result(result)
        except BaseException as error:  # every job of the batch gets it
            if isinstance(error, torch.OutOfMemoryError) and len(batch) > 1:
                half = len(batch) // 2
                self._run(batch[:half])
                self._run(batch[half:])
                return
            for job in batch:
                job.future.set_exception(error)


def generate(local: LocalModel, jobs: Sequence[Job]) -> list[Reply]:
    """Reply to jobs of one kind in one batch.

    Prompts of a causal model are padded on the left, those of a sequence-to-sequence model on the right; the padding is
    masked and has no positions, so a job gets the reply that it would get alone, up to the rounding of floating-point
    sums.
    """
    import torch
    from transformers import LogitsProcessorList, StoppingCriteriaList

    device = local.model.device
    ids, mask = pad_rows([job.ids for job in jobs], local.pad_id, left=not local.is_seq2seq, device=device)
    prompt = 1 if local.is_seq2seq else ids.shape[1]
    scores, first, ends = _TokenScores(), jobs[0], _Ends(local, jobs, prompt)
    devices = [device] if device.type == "cuda" else []
    with torch.inference_mode(), torch.random.fork_rng(devices) if first.sampling else nullcontext():
        if first.sampling:
            torch.manual_seed(torch.seed() if first.seed is None else first.seed)
        output = local.model.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=_settings(local, max(job.limit for job in jobs), first.sampling),
            logits_processor=LogitsProcessorList([scores] if first.logprobs else []),
            stopping_criteria=StoppingCriteriaList([ends]),
        )
        scores.take(output)
    logprobs = torch.cat(scores.taken, 1).tolist() if scores.taken else [[] for _ in jobs]
    replies = []
    rows = output[:, prompt:].tolist()
    for job, written, values, stopped, loops in zip(jobs, rows, logprobs, ends.stopped, ends.loops, strict=True):
        within = written[: min(job.limit, stopped or job.limit)]
        end = next((place for place, token in enumerate(within, 1) if token in local.end_ids), stopped)
        length = end or job.limit
        replies.append(Reply(written[:length], end is not None and not loops, values[:length]))
    return replies


class _Ends:
    """A hook of Transformers' `generate`: ends each reply at its limit, at a stop text of its job, or in a loop.

    A small model that decodes greedily may write the same few tokens again and again, up to the limit.

    Attributes:
        stopped: for each job, the number of tokens at which the reply was ended before its limit; None if it was not.
        loops: for each job, whether it was ended because it repeated itself.
    """

    def __init__(self, local: LocalModel, jobs: Sequence[Job], prompt: int):
        self._local, self._jobs, self._prompt = local, jobs, prompt
        self.stopped: list[int | None] = [None for _ in jobs]
        self.loops = [False for _ in jobs]

    def __call__(self, rows: Any, scores: Any, **_: Any) -> Any:
        import torch

        written = rows.shape[1] - self._prompt
        if any(job.stop for job in self._jobs):
            texts = self._local.tokenizer.batch_decode(rows[:, -min(written, _STOP_TOKENS) :])
            for place, (job, text) in enumerate(zip(self._jobs, texts, strict=True)):
                if self.stopped[place] is None and any(stop in text for stop in job.stop):
                    self.stopped[place] = written
        if written >= _LOOP and written % _PERIOD == 0 and not self._jobs[0].sampling:
            for place, tail in enumerate(rows[:, -_LOOP:].tolist()):
                over = self.stopped[place] is not None or tail[-1] in {*self._local.end_ids, self._local.pad_id}
                if not over and any(tail[n:] == tail[:-n] for n in range(1, _PERIOD + 1)):
                    self.stopped[place], self.loops[place] = written, True
        done = [end is not None or written >= job.limit for end, job in zip(self.stopped, self._jobs, strict=True)]
        return torch.tensor(done, device=rows.device)


class _TokenScores:
    """A hook of Transformers' `generate`: records the log-probability of each token when the next one is due."""

    def __init__(self) -> None:
        self._last: Any = None
        self.taken: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.take(input_ids)
        self._last = scores.float().log_softmax(-1)
        return scores

    def take(self, input_ids: Any) -> None:
        """Record those of the tokens that the last step wrote."""
        if self._last is not None:
            self.taken.append(self._last.gather(1, input_ids[:, -1:]))


def _settings(local: LocalModel, limit: int, sampling: dict[str, Any]) -> Any:
    """The model's own settings for decoding at most `limit` tokens.

    The checkpoint's settings for sampling are replaced; those for special tokens, penalties and forbidden tokens are
    kept.
    """
    config = copy.deepcopy(local.model.generation_config)
    drawing = {"temperature": None, "top_p": None, "top_k": 0 if sampling else None, **sampling}
    config.update(
        do_sample=bool(sampling), **drawing, min_p=None, typical_p=None, num_beams=1, max_length=None, min_length=None,
        max_new_tokens=limit, eos_token_id=list(local.end_ids) or None, pad_token_id=local.pad_id,
        num_return_sequences=1, return_dict_in_generate=False,
    )  # fmt: skip
    return config


def pad_rows(
    rows: Sequence[Sequence[int]], padding: int = 0, *, left: bool = False, device: Any = "cpu"
) -> tuple[Any, Any]:
    """Pad rows of tokens to one length; return ids and mask, both of shape (rows, longest)."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    side, ids = "left" if left else "right", [torch.tensor(row, dtype=torch.long) for row in rows]
    mask = pad_sequence([torch.ones_like(row) for row in ids], batch_first=True, padding_side=side)
    padded = pad_sequence(ids, batch_first=True, padding_value=padding, padding_side=side)
    return padded.to(device), mask.to(device)


def score(local: LocalModel, jobs: Sequence[Job]) -> list[list[list[float]]]:
    """The log-probabilities of the tokens of each continuation of each job, in one pass over all of them."""
    import torch

    pairs = [(job.ids, tokens) for job in jobs for tokens in job.continuations]
    with torch.inference_mode():
        scores = iter((_seq2seq_scores if local.is_seq2seq else _causal_scores)(local, pairs))
    return [[next(scores) for _ in job.continuations] for job in jobs]


def _causal_scores(local: LocalModel, pairs: Sequence[tuple[list[int], list[int]]]) -> list[list[float]]:
    rows = [[*prompt, *tokens] for prompt, tokens in pairs]
    ids, mask = pad_rows(rows, local.pad_id, left=True, device=local.model.device)
    accepted = inspect.signature(local.model.forward).parameters
    inputs = {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)} if "position_ids" in accepted else {}
    if "logits_to_keep" in accepted:  # those of the continuations, and of the token before them
        inputs["logits_to_keep"] = 1 + max(len(tokens) for _, tokens in pairs)
    logits = local.model(input_ids=ids, attention_mask=mask, use_cache=False, **inputs).logits
    return [_token_scores(row[-1 - len(tokens) : -1], tokens) for row, (_, tokens) in zip(logits, pairs, strict=True)]


def _seq2seq_scores(local: LocalModel, pairs: Sequence[tuple[list[int], list[int]]]) -> list[list[float]]:
    device = local.model.device
    ids, mask = pad_rows([prompt for prompt, _ in pairs], local.pad_id, device=device)
    start = local.model.generation_config.decoder_start_token_id
    start = local.model.config.decoder_start_token_id if start is None else start
    written, _ = pad_rows([[start, *tokens] for _, tokens in pairs], local.pad_id, device=device)
    logits = local.model(input_ids=ids, attention_mask=mask, decoder_input_ids=written, use_cache=False).logits
    return [_token_scores(row[: len(tokens)], tokens) for row, (_, tokens) in zip(logits, pairs, strict=True)]


def _token_scores(logits: Any, tokens: Sequence[int]) -> list[float]:
    """Log-probabilities of tokens; `logits` has shape (tokens, vocabulary)."""
    scores = logits.float().log_softmax(-1)
    return [float(scores[position, token]) for position, token in enumerate(tokens)]
