"""A local Transformers model as a DSPy engine: greedy or drawn replies, with log-probabilities of their tokens."""

from __future__ import annotations

import copy
import threading
from typing import Any

from dspy.lm15 import Message, Request, Response, TokenLogprob, Usage

from knowgap.lms.engines import AsyncInProcessEngine, InProcessEngine, system_text
from knowgap.lms.local.loading import LocalModel, Turn, load_model
from knowgap.retrieval.passage import NeverCopied


class HFEngine(NeverCopied, InProcessEngine):
    """Generates with a causal or a sequence-to-sequence model, which is loaded at the first request and kept.

    The prompt is made by the tokenizer's chat template or, without one, by joining the messages with blank lines; a
    reply continues a last message of the assistant. Decoding is greedy unless the request sets a temperature above 0.
    Requests are answered one after another: for many at a time, serve the model (`transformers serve`, vLLM, Ollama)
    and name it `openai/…`.

    Args:
        path_or_id: a model folder, or a name on the hub.
        device: `cpu`, `cuda`, `cuda:1`, …; by default a GPU if there is one.
        max_new_tokens: the largest number of tokens to generate, unless the request sets `max_tokens`.
        dtype: `float32`, `bfloat16` or `float16`; `auto` is the checkpoint's own on a GPU. On a CPU it is bfloat16 if
            the checkpoint is and the processor computes in it, else float32.
    """

    supported_params = frozenset({"temperature", "top_p", "top_k", "max_tokens", "logprobs", "seed", "stop"})

    def __init__(self, path_or_id: str, device: str | None = None, max_new_tokens: int = 512, dtype: str = "auto"):
        self.path_or_id, self.max_new_tokens = path_or_id, max_new_tokens
        self.settings = {
            "path_or_id": path_or_id, "device": device, "max_new_tokens": max_new_tokens, "dtype": dtype,
        }  # fmt: skip
        self._lock = threading.Lock()
        self._local: LocalModel | None = None

    def complete(self, request: Request) -> Response:
        """Reply to one request, with token log-probabilities if `request.config.logprobs` is set.

        Raises:
            LanguageModelError: the model cannot be loaded, or its chat template cannot render the conversation.
            ContextWindowExceededError: the prompt is longer than the model's context window.
        """
        system, config = system_text(request), request.config
        turns: list[Turn] = [{"role": "system", "content": system}] if system else []
        turns += [{"role": message.role, "content": message.text or ""} for message in request.messages]
        with self._lock:
            local = self._load()
            ids = local.chat_ids(turns)
            limit = local.room(len(ids), config.max_tokens or self.max_new_tokens)
            tokens, logprobs = _generate(local, ids, limit, config)
        stop, decode = tuple(config.stop or ()), local.tokenizer.decode
        ended = bool(tokens) and tokens[-1] in local.end_ids
        said = tokens[:-1] if ended else tokens
        text = decode(said, skip_special_tokens=True)
        stopped = next((end for end in stop if end in text), None)
        scored = zip(said, logprobs, strict=False)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(text if stopped is None else text.partition(stopped)[0]),
            finish_reason="stop" if ended or stopped is not None else "length",
            usage=Usage(input_tokens=len(ids), output_tokens=len(tokens)),
            logprobs=None
            if config.logprobs is None
            else tuple(TokenLogprob(decode([token]), value, token_id=token) for token, value in scored),
        )

    def load(self) -> LocalModel:
        """The model, which is loaded at the first call."""
        with self._lock:
            return self._load()

    def _load(self) -> LocalModel:
        if self._local is None:
            self._local = load_model(self.path_or_id, self.settings["device"], self.settings["dtype"])
        return self._local

    def close(self) -> None:
        """Release the model; another request loads it again."""
        with self._lock:
            self._local = None


class AsyncHFEngine(AsyncInProcessEngine):
    """The same model for `acall`."""

    engine_class = HFEngine


def _generate(local: LocalModel, ids: list[int], limit: int, config: Any) -> tuple[list[int], list[float]]:
    """The tokens of a reply of at most `limit` tokens, the one that ends it included, and their log-probabilities.

    These are natural logarithms of the model's own probabilities, before temperature; empty if not asked for.
    """
    import torch

    draws = {"temperature": config.temperature, "top_p": config.top_p, "top_k": config.top_k or 0}
    sampling = {name: value for name, value in draws.items() if value is not None} if config.temperature else {}
    device = local.model.device
    with torch.inference_mode(), torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(torch.seed() if config.seed is None else config.seed)
        given = torch.tensor([ids], device=device)
        output = local.model.generate(
            input_ids=given,
            attention_mask=torch.ones_like(given),
            generation_config=_settings(local, limit, sampling, config),
            tokenizer=local.tokenizer,  # for the stop texts
        )
        tokens = output.sequences[0, 1 if local.is_seq2seq else len(ids) :]
        steps = [] if output.logits is None else output.logits
        scores = [float(step[0].float().log_softmax(-1)[token]) for step, token in zip(steps, tokens, strict=False)]
    return tokens.tolist(), scores


def _settings(local: LocalModel, limit: int, sampling: dict[str, Any], config: Any) -> Any:
    """The model's own settings for decoding at most `limit` tokens.

    The checkpoint's settings for sampling are replaced; those for special tokens, penalties and forbidden tokens are
    kept.
    """
    settings = copy.deepcopy(local.model.generation_config)
    drawing = {"temperature": None, "top_p": None, "top_k": None, **sampling}
    settings.update(
        do_sample=bool(sampling), **drawing, min_p=None, typical_p=None, num_beams=1, max_length=None, min_length=None,
        max_new_tokens=limit, eos_token_id=list(local.end_ids) or None, pad_token_id=local.pad_id,
        num_return_sequences=1, return_dict_in_generate=True, output_logits=config.logprobs is not None,
        stop_strings=list(config.stop or ()) or None,
    )  # fmt: skip
    return settings
