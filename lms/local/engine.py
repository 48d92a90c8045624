"""A local Transformers model as a DSPy engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal, TypeVar

from dspy.lm15 import Request, Response, response_to_events

from knowgap.errors import UsageError
from knowgap.lms.local.asking import ModelQueue
from knowgap.lms.local.jobs import GenerationJob, Reply, ScoringJob
from knowgap.lms.local.loading import LocalModel, load_model
from knowgap.lms.local.prompts import chat_ids, check_window, request_turns, text_ids
from knowgap.lms.local.responses import make_response

__all__ = ["AsyncHFEngine", "HFEngine"]

T = TypeVar("T")

Batching = Literal["auto", "continuous", "padded"]


class HFEngine:
    """Generates with a causal or a sequence-to-sequence model, which is loaded at the first request and kept.

    The prompt is made by the tokenizer's chat template, or from the messages with blank lines between them where it has
    none. Decoding is greedy unless the request sets a temperature above 0. Requests of several threads, or of one event
    loop, are answered in batches; a request that is cancelled leaves its batch.

    Args:
        path_or_id: a model folder, or a name on the hub.
        device: `cpu`, `cuda`, `cuda:1`, …; by default a GPU if there is one.
        max_new_tokens: the largest number of tokens to generate, unless the request sets `max_tokens`.
        dtype: `float32`, `bfloat16` or `float16`; `auto` is the checkpoint's own on a GPU, float32 on a CPU.
        batching: `continuous` lets Transformers replace each reply that is at its end by the next prompt, where the
            model and the request allow it; `padded` fills the prompts that wait up to one length, and starts the next
            batch when all replies are at their end; `auto` is the first on a GPU, the second on a CPU (measured:
            `docs/benchmarks.md`).
        batch_size: the most requests in a padded batch.
    """

    def __init__(
        self,
        path_or_id: str,
        device: str | None = None,
        max_new_tokens: int = 512,
        dtype: str = "auto",
        batching: Batching = "auto",
        batch_size: int = 32,
    ):
        self.path_or_id, self.device, self.max_new_tokens, self.dtype = path_or_id, device, max_new_tokens, dtype
        self.batching, self.batch_size = batching, batch_size
        self._lock = threading.RLock()
        self._loaded: tuple[LocalModel, ModelQueue] | None = None

    supported_params = frozenset(
        {"temperature", "top_p", "top_k", "max_tokens", "logprobs", "top_logprobs", "seed", "stop"}
    )

    def complete(self, request: Request) -> Response:
        """Reply to one request, with token log-probabilities if `request.config.logprobs` is set.

        Raises:
            LanguageModelError: the model cannot be loaded.
            ContextWindowExceededError: the prompt is longer than the model's window.
            MissingDependency: transformers or torch is not installed.
        """
        local, job = self.submit(request)
        return make_response(local, request, job, _result(job.future))

    def stream(self, request: Request) -> Iterator[Any]:
        """Give the whole reply as a stream of events."""
        return iter(response_to_events(self.complete(request)))

    def choose(
        self, prompt: str | Sequence[Mapping[str, str]], labels: Sequence[str], *, per_token: bool = False
    ) -> dict[str, float]:
        """How likely each of some labels is as the whole reply to a prompt.

        The end of the reply is a part of each label: `know` does not get the probability of `know nothing`, and all
        labels with all other replies share a probability of 1, so that labels of different lengths compare. Calls of
        several threads are answered in batches.

        Args:
            prompt: a text that is read as it stands, or messages (`{"role": …, "content": …}`) for the chat template.
            labels: texts as the model would write them right after the prompt, at least one, none empty or twice.
            per_token: give the mean over a label's tokens instead of the sum.

        Returns:
            The natural log-probability of each label. `softmax` over them is the distribution among the labels alone.

        Raises:
            UsageError: there is no label, or one is empty or stated twice; or the prompt is empty.
            ContextWindowExceededError: prompt and label are longer than the model's window.
        """
        if not labels or not all(labels) or len(set(labels)) < len(labels):
            raise UsageError(f"labels={list(labels)!r}: state at least one, none empty or twice")
        if not prompt:
            raise UsageError("the prompt is empty")
        with self._lock:
            local, queue = self.load()
            ids = text_ids(local, prompt) if isinstance(prompt, str) else chat_ids(local, prompt)
            job = ScoringJob(ids, [_label_ids(local, label) for label in labels])
            check_window(local, len(ids) + (0 if local.is_seq2seq else max(map(len, job.continuations)) - 1), 1)
        scores = _result(queue.submit(job))
        return {
            label: sum(values) / (len(values) if per_token else 1) for label, values in zip(labels, scores, strict=True)
        }

    def close(self) -> None:
        """Release the model; requests under way come to their end."""
        with self._lock:
            self._loaded = None

    def dump_state(self) -> dict[str, Any]:
        """Return the settings, JSON-ready."""
        names = ("path_or_id", "device", "max_new_tokens", "dtype", "batching", "batch_size")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> HFEngine:
        """Make an engine from what `dump_state` returned."""
        return cls(**state)

    def __deepcopy__(self, memo: dict[int, Any]) -> HFEngine:
        return self  # copies of an LM share the weights

    def load(self) -> tuple[LocalModel, ModelQueue]:
        """The model and the queue of what it is asked; loaded at the first call.

        Raises:
            LanguageModelError: the model cannot be loaded.
        """
        with self._lock:
            if self._loaded is None:
                local = load_model(self.path_or_id, self.device, self.dtype)
                continuous = self.batching == "continuous" or (self.batching == "auto" and local.device.type != "cpu")
                self._loaded = local, ModelQueue(local, continuous=continuous, batch_size=self.batch_size)
            return self._loaded

    def submit(self, request: Request, future: Future[Reply] | None = None) -> tuple[LocalModel, GenerationJob]:
        """Let a request wait for its batch; return the model that will answer it, and the job, which has `future`.

        Raises:
            LanguageModelError: the model cannot be loaded.
            ContextWindowExceededError: the prompt is longer than the model's window.
        """
        config = request.config
        with self._lock:
            local, queue = self.load()
            ids = chat_ids(local, request_turns(request))
        job = GenerationJob(
            ids,
            check_window(local, len(ids), config.max_tokens or self.max_new_tokens),
            temperature=config.temperature or 0.0,
            top_p=config.top_p,
            top_k=config.top_k,
            seed=config.seed,
            stop=config.stop,
            logprobs=config.logprobs,
            future=future or Future(),
        )
        queue.submit(job)
        return local, job


def _result(future: Future[T]) -> T:
    """Wait for a result; whoever stops waiting cancels it."""
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _label_ids(local: LocalModel, label: str) -> list[int]:
    """The tokens of a label, with the one that ends a reply."""
    tokenizer = local.tokenizer
    end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else next(iter(local.end_ids), None)
    return [*tokenizer(label, add_special_tokens=False).input_ids, *([] if end is None else [end])]


class AsyncHFEngine:
    """The same model for `acall`: requests of one event loop are answered in batches as well."""

    def __init__(self, engine: HFEngine):
        self._engine = engine

    async def complete(self, request: Request) -> Response:
        """Reply to one request."""
        future: Future[Reply] = Future()
        try:
            local, job = await asyncio.to_thread(self._engine.submit, request, future)
            return make_response(local, request, job, await asyncio.wrap_future(future))
        except BaseException:
            future.cancel()
            raise

    async def stream(self, request: Request) -> Any:
        """Give the whole reply as a stream of events."""
        for event in response_to_events(await self.complete(request)):
            yield event

    async def aclose(self) -> None:
        """Release the model."""
        self._engine.close()

    def dump_state(self) -> dict[str, Any]:
        """Return the settings, JSON-ready."""
        return self._engine.dump_state()

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> AsyncHFEngine:
        """Make an engine from what `dump_state` returned."""
        return cls(HFEngine.load_state(state))
