"""A local Transformers model as a DSPy engine: answers, log-probabilities of tokens, and probabilities of labels."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from dspy.lm15 import Message, Request, Response, TokenLogprob, Usage

from knowgap.errors import UsageError
from knowgap.lms.engines import AsyncInProcessEngine, InProcessEngine, system_text
from knowgap.lms.local.batches import Batcher, Job, Reply
from knowgap.lms.local.loading import LocalModel, Turn, load_model
from knowgap.retrieval.passage import NeverCopied


class HFEngine(NeverCopied, InProcessEngine):
    """Generates with a causal or a sequence-to-sequence model, which is loaded at the first request and kept.

    The prompt is made by the tokenizer's chat template or, without one, by joining the messages with blank lines.
    Decoding is greedy unless the request sets a temperature above 0. Requests of several threads are answered in padded
    batches; one with a temperature is answered alone. For continuous batching, and the most probable other tokens,
    serve the model (`transformers serve`, vLLM, Ollama) and name it `openai/…`.

    Args:
        path_or_id: a model folder, or a name on the hub.
        device: `cpu`, `cuda`, `cuda:1`, …; by default a GPU if there is one.
        max_new_tokens: the largest number of tokens to generate, unless the request sets `max_tokens`.
        dtype: `float32`, `bfloat16` or `float16`; `auto` is the checkpoint's own on a GPU. On a CPU it is bfloat16 if
            the checkpoint is and the processor computes in it, else float32.
        batch_size: the most requests in a padded batch.
    """

    supported_params = frozenset({"temperature", "top_p", "top_k", "max_tokens", "logprobs", "seed", "stop"})

    def __init__(
        self,
        path_or_id: str,
        device: str | None = None,
        max_new_tokens: int = 512,
        dtype: str = "auto",
        batch_size: int = 32,
    ):
        self.path_or_id, self.max_new_tokens = path_or_id, max_new_tokens
        self.settings = {
            "path_or_id": path_or_id, "device": device, "max_new_tokens": max_new_tokens, "dtype": dtype,
            "batch_size": batch_size,
        }  # fmt: skip
        self._lock = threading.RLock()
        self._batcher: Batcher | None = None

    def complete(self, request: Request) -> Response:
        """Reply to one request, with token log-probabilities if `request.config.logprobs` is set.

        Raises:
            LanguageModelError: the model cannot be loaded, or its chat template cannot render the conversation.
            ContextWindowExceededError: the prompt is longer than the model's context window.
        """
        config = request.config
        system = system_text(request)
        turns: list[Turn] = [{"role": "system", "content": system}] if system else []
        turns += [{"role": message.role, "content": message.text or ""} for message in request.messages]
        with self._lock:
            local = self.load()
            ids = local.chat_ids(turns)
        sampling = {"temperature": config.temperature, "top_p": config.top_p, "top_k": config.top_k}
        job = Job(
            ids,
            local.room(len(ids), config.max_tokens or self.max_new_tokens),
            stop=tuple(config.stop or ()),
            sampling={name: value for name, value in sampling.items() if value} if config.temperature else {},
            seed=config.seed,
            logprobs=config.logprobs is not None,
        )
        [reply] = self._ready().run([job])
        return _response(local, request, job, reply)

    def choose(self, prompt: str | Sequence[Mapping[str, str]], labels: Sequence[str]) -> dict[str, float]:
        """The log-probability of each of several labels as the whole reply to a prompt.

        The end of the reply is a part of each label: `know` does not get the probability of `know nothing`, and the
        probabilities of all possible replies sum to 1, so that labels of different lengths can be compared.

        Args:
            prompt: a text that is read unchanged, or messages (`{"role": …, "content": …}`) for the chat template.
            labels: texts as the model would write them right after the prompt, at least one, none empty or twice.

        Returns:
            The natural log-probability of each label. `softmax` over them is the distribution among the labels alone.

        Raises:
            UsageError: there is no label, or one is empty or stated twice; or the prompt is empty.
            ContextWindowExceededError: prompt and label are longer than the model's context window.
        """
        if not prompt or not labels or not all(labels) or len(set(labels)) < len(labels):
            raise UsageError(f"labels={list(labels)!r}: give a prompt, and labels that all differ and are not empty")
        with self._lock:
            local = self.load()
            ids = local.text_ids(prompt) if isinstance(prompt, str) else local.chat_ids(prompt)
            continuations = [_label_ids(local, label) for label in labels]
            local.room(len(ids) + (0 if local.is_seq2seq else max(map(len, continuations)) - 1), 1)
        [scores] = self.score([ids], continuations)
        return dict(zip(labels, map(sum, scores), strict=True))

    def score(self, prompts: Sequence[list[int]], continuations: list[list[int]]) -> list[list[list[float]]]:
        """For each prompt and each of the continuations, the natural log-probabilities of the continuation's tokens."""
        return self._ready().run([Job(ids, continuations=continuations) for ids in prompts])

    def write(self, prompts: Sequence[list[int]], limit: int) -> list[str]:
        """The most likely text after each prompt of tokens: at most `limit` tokens, or as many as the window leaves."""
        local = self.load()
        replies = self._ready().run([Job(ids, local.room(len(ids), limit)) for ids in prompts])
        return [local.tokenizer.decode(reply.tokens, skip_special_tokens=True) for reply in replies]

    def load(self) -> LocalModel:
        """The model, which is loaded at the first call."""
        return self._ready().local

    def _ready(self) -> Batcher:
        with self._lock:
            if self._batcher is None:
                local = load_model(self.path_or_id, self.settings["device"], self.settings["dtype"])
                self._batcher = Batcher(local, self.settings["batch_size"])
            return self._batcher

    def close(self) -> None:
        """Release the model; requests under way finish."""
        with self._lock:
            self._batcher = None


class AsyncHFEngine(AsyncInProcessEngine):
    """The same model for `acall`."""

    engine_class = HFEngine


def _label_ids(local: LocalModel, label: str) -> list[int]:
    """The tokens of a label, with the one that ends a reply."""
    tokenizer = local.tokenizer
    end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else next(iter(local.end_ids), None)
    return [*tokenizer(label, add_special_tokens=False).input_ids, *([] if end is None else [end])]


def _response(local: LocalModel, request: Request, job: Job, reply: Reply) -> Response:
    tokens = [*reply.tokens[:-1], *(token for token in reply.tokens[-1:] if token not in local.end_ids)]
    decode = local.tokenizer.decode
    text = decode(tokens, skip_special_tokens=True)
    for stop in job.stop:
        text = text.partition(stop)[0]
    scored = zip(tokens, reply.logprobs, strict=False)
    return Response(
        id=None,
        model=request.model,
        message=Message.assistant(text),
        finish_reason="stop" if reply.ended else "length",
        usage=Usage(input_tokens=len(job.ids), output_tokens=len(reply.tokens)),
        logprobs=tuple(TokenLogprob(decode([token]), value, token_id=token) for token, value in scored)
        if job.logprobs
        else None,
    )
