"""A local Transformers model as a DSPy engine: answers, log-probabilities of tokens, and probabilities of labels."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from dspy.lm15 import Message, Request, Response, TokenLogprob, TopLogprob, Usage, response_to_events

from knowgap.errors import UsageError
from knowgap.lms.local.batches import Batcher, Job, Reply
from knowgap.lms.local.loading import LocalModel, load_model
from knowgap.lms.local.prompts import chat_ids, check_window, request_turns, text_ids


class HFEngine:
    """Generates with a causal or a sequence-to-sequence model, which is loaded at the first request and kept.

    The prompt is made by the tokenizer's chat template, or from the messages with blank lines between them where it has
    none. Decoding is greedy unless the request sets a temperature above 0. Requests of several threads, or of one event
    loop, are answered in padded batches; one with a temperature is answered alone. A request that is cancelled leaves
    its batch. For continuous batching, serve the model (`transformers serve`, vLLM, Ollama) and name it `openai/…`.

    Args:
        path_or_id: a model folder, or a name on the hub.
        device: `cpu`, `cuda`, `cuda:1`, …; by default a GPU if there is one.
        max_new_tokens: the largest number of tokens to generate, unless the request sets `max_tokens`.
        dtype: `float32`, `bfloat16` or `float16`; `auto` is the checkpoint's own on a GPU, float32 on a CPU.
        batch_size: the most requests in a padded batch.
    """

    def __init__(
        self,
        path_or_id: str,
        device: str | None = None,
        max_new_tokens: int = 512,
        dtype: str = "auto",
        batch_size: int = 32,
    ):
        self.path_or_id, self.device, self.max_new_tokens, self.dtype = path_or_id, device, max_new_tokens, dtype
        self.batch_size = batch_size
        self._lock = threading.RLock()
        self._loaded: tuple[LocalModel, Batcher] | None = None

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
        return _response(local, request, job, _results([job.future])[0])

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
            local, _ = self.load()
            ids = text_ids(local, prompt) if isinstance(prompt, str) else chat_ids(local, prompt)
            continuations = [_label_ids(local, label) for label in labels]
            check_window(local, len(ids) + (0 if local.is_seq2seq else max(map(len, continuations)) - 1), 1)
        [scores] = self.score([ids], continuations)
        return {
            label: sum(values) / (len(values) if per_token else 1) for label, values in zip(labels, scores, strict=True)
        }

    def score(self, prompts: Sequence[list[int]], continuations: list[list[int]]) -> list[list[list[float]]]:
        """For each prompt and each of the continuations, the natural log-probabilities of the continuation's tokens."""
        return self._run([Job(ids, continuations=continuations) for ids in prompts])

    def write(self, prompts: Sequence[list[int]], limit: int) -> list[str]:
        """The most likely text after each prompt of tokens: at most `limit` tokens, or as many as the window leaves.

        Raises:
            ContextWindowExceededError: a prompt is longer than the model's window.
        """
        local, _ = self.load()
        replies = self._run([Job(ids, check_window(local, len(ids), limit)) for ids in prompts])
        return [local.tokenizer.decode(reply.tokens, skip_special_tokens=True) for reply in replies]

    def _run(self, jobs: Sequence[Job]) -> list[Any]:
        _, batcher = self.load()
        return _results([batcher.submit(job) for job in jobs])

    def close(self) -> None:
        """Release the model; requests under way come to their end."""
        with self._lock:
            self._loaded = None

    def dump_state(self) -> dict[str, Any]:
        """Return the settings, JSON-ready."""
        names = ("path_or_id", "device", "max_new_tokens", "dtype", "batch_size")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> HFEngine:
        """Make an engine from what `dump_state` returned."""
        return cls(**state)

    def __deepcopy__(self, memo: dict[int, Any]) -> HFEngine:
        return self  # copies of an LM share the weights

    def load(self) -> tuple[LocalModel, Batcher]:
        """The model, and what runs its batches; loaded at the first call.

        Raises:
            LanguageModelError: the model cannot be loaded.
        """
        with self._lock:
            if self._loaded is None:
                local = load_model(self.path_or_id, self.device, self.dtype)
                self._loaded = local, Batcher(local, self.batch_size)
            return self._loaded

    def submit(self, request: Request, future: Future[Reply] | None = None) -> tuple[LocalModel, Job]:
        """Let a request wait for its batch; return the model that will answer it, and the job, which has `future`.

        Raises:
            LanguageModelError: the model cannot be loaded.
            ContextWindowExceededError: the prompt is longer than the model's window.
        """
        config = request.config
        with self._lock:
            local, batcher = self.load()
            ids = chat_ids(local, request_turns(request))
        sampling = {"temperature": config.temperature, "top_p": config.top_p, "top_k": config.top_k}
        job = Job(
            ids,
            check_window(local, len(ids), config.max_tokens or self.max_new_tokens),
            sampling={name: value for name, value in sampling.items() if value} if config.temperature else {},
            seed=config.seed,
            stop=config.stop,
            logprobs=config.logprobs,
            future=future or Future(),
        )
        batcher.submit(job)
        return local, job


def _results(futures: Sequence[Future[Any]]) -> list[Any]:
    """Wait for all results; whoever stops waiting cancels them."""
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def _label_ids(local: LocalModel, label: str) -> list[int]:
    """The tokens of a label, with the one that ends a reply."""
    tokenizer = local.tokenizer
    end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else next(iter(local.end_ids), None)
    return [*tokenizer(label, add_special_tokens=False).input_ids, *([] if end is None else [end])]


def _response(local: LocalModel, request: Request, job: Job, reply: Reply) -> Response:
    """The text of a reply up to the first of its stop texts, without special tokens, and its log-probabilities."""
    tokens = reply.tokens
    if tokens and tokens[-1] in local.end_ids:
        tokens = tokens[:-1]
    text = local.tokenizer.decode(tokens, skip_special_tokens=True)
    stops = [text.index(stop) for stop in job.stop if stop in text]
    if stops:
        text = text[: min(stops)]
    kept = _spelling(local, tokens, text) if stops else len(tokens)
    return Response(
        id=None,
        model=request.model,
        message=Message.assistant(text),
        finish_reason="stop" if reply.ended or stops else "length",
        usage=Usage(input_tokens=len(job.ids), output_tokens=len(reply.tokens)),
        logprobs=None if job.logprobs is None else _logprobs(local, reply, kept),
    )


def _spelling(local: LocalModel, tokens: list[int], text: str) -> int:
    """How many of the tokens are needed to spell the text."""
    lengths = (len(local.tokenizer.decode(tokens[:count], skip_special_tokens=True)) for count in range(len(tokens)))
    return next((count for count, length in enumerate(lengths) if length >= len(text)), len(tokens))


def _logprobs(local: LocalModel, reply: Reply, kept: int) -> tuple[TokenLogprob, ...]:
    decode = local.tokenizer.decode
    return tuple(
        TokenLogprob(
            decode([scored.token]),
            scored.logprob,
            token_id=scored.token,
            top=tuple(TopLogprob(decode([token]), value, token_id=token) for token, value in scored.top),
        )
        for scored in reply.scores[:kept]
    )


class AsyncHFEngine:
    """The same model for `acall`: requests of one event loop are answered in batches as well."""

    def __init__(self, engine: HFEngine):
        self._engine = engine

    async def complete(self, request: Request) -> Response:
        """Reply to one request."""
        future: Future[Reply] = Future()
        try:
            local, job = await asyncio.to_thread(self._engine.submit, request, future)
            return _response(local, request, job, await asyncio.wrap_future(future))
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
