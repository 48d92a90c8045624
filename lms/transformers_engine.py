"""A local Hugging Face Transformers model as a DSPy engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dspy.lm15 import Message, Request, Response, TokenLogprob, TopLogprob, Usage, response_to_events

from knowgap.errors import LanguageModelError, MissingDependency

__all__ = ["AsyncHFEngine", "HFEngine"]


class HFEngine:
    """Generates with `AutoModelForCausalLM`, which is loaded at the first request and kept.

    The prompt is made by the tokenizer's chat template, or from the messages with blank lines between them where it has
    none. Decoding is greedy unless the request sets a temperature above 0. One request is answered at a time.

    Args:
        path_or_id: a model folder, or a name on the hub.
        device: `cpu`, `cuda`, `cuda:1`, …; by default a GPU if there is one.
        max_new_tokens: the largest number of tokens to generate, unless the request sets `max_tokens`.
    """

    def __init__(self, path_or_id: str, device: str | None = None, max_new_tokens: int = 512):
        self.path_or_id, self.device, self.max_new_tokens = path_or_id, device, max_new_tokens
        self._lock = threading.RLock()
        self._loaded: tuple[Any, Any] | None = None

    supported_params = frozenset({"temperature", "top_p", "max_tokens", "logprobs", "top_logprobs", "seed"})

    def complete(self, request: Request) -> Response:
        """Reply to one request, with token log-probabilities if `request.config.logprobs` is set.

        Raises:
            LanguageModelError: the model cannot be loaded.
            MissingDependency: transformers or torch is not installed.
        """
        with self._lock:
            return self._complete(request)

    def stream(self, request: Request) -> Iterator[Any]:
        """Give the whole reply as a stream of events."""
        return iter(response_to_events(self.complete(request)))

    def close(self) -> None:
        """Release the model."""
        with self._lock:
            self._loaded = None

    def dump_state(self) -> dict[str, Any]:
        """Return the settings, JSON-ready."""
        return {"path_or_id": self.path_or_id, "device": self.device, "max_new_tokens": self.max_new_tokens}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> HFEngine:
        """Make an engine from what `dump_state` returned."""
        return cls(**state)

    def __deepcopy__(self, memo: dict[int, Any]) -> HFEngine:
        return self  # copies of an LM share the weights

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            try:
                import torch
                from transformers import AutoModelForCausalLM, AutoTokenizer
            except ImportError as error:
                raise MissingDependency(
                    "a local model needs torch and transformers: pip install torch transformers"
                ) from error
            folder = Path(self.path_or_id).expanduser()
            name = str(folder) if folder.exists() else self.path_or_id
            try:
                tokenizer = AutoTokenizer.from_pretrained(name)
                model: Any = AutoModelForCausalLM.from_pretrained(name)
            except (OSError, ValueError) as error:
                reason = " ".join(str(error).split())[:200]
                raise LanguageModelError(f"the local model {self.path_or_id!r} cannot be loaded: {reason}") from error
            device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
            self._loaded = tokenizer, model.to(device).eval()
        return self._loaded

    def _complete(self, request: Request) -> Response:
        tokenizer, model = self._load()
        import torch

        config = request.config
        prompt = _encode(tokenizer, request).to(model.device)
        limit = config.max_tokens or self.max_new_tokens
        sampling: dict[str, Any] = {"do_sample": False}
        if config.temperature:
            sampling = {"do_sample": True, "temperature": config.temperature}
            sampling |= {"top_p": config.top_p} if config.top_p else {}
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        with torch.random.fork_rng(devices=[], enabled=config.seed is not None), torch.inference_mode():
            if config.seed is not None:
                torch.manual_seed(config.seed)
            output = model.generate(
                prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=limit, pad_token_id=pad,
                return_dict_in_generate=True, output_logits=config.logprobs is not None, **sampling,
            )  # fmt: skip
        tokens = output.sequences[0, prompt.shape[1] :].tolist()
        ended = bool(tokens) and tokens[-1] in _stop_ids(tokenizer, model)
        logprobs = None
        if config.logprobs is not None:
            scores = torch.stack([step[0] for step in output.logits]).float().log_softmax(-1)
            logprobs = _logprobs(tokenizer, tokens[: len(tokens) - ended], scores, config.logprobs)
        text = tokenizer.decode(tokens, skip_special_tokens=True)
        return Response(
            id=None, model=request.model, message=Message.assistant(text), finish_reason="stop" if ended else "length",
            usage=Usage(input_tokens=prompt.shape[1], output_tokens=len(tokens)), logprobs=logprobs,
        )  # fmt: skip


def _encode(tokenizer: Any, request: Request) -> Any:
    """Tokenize the prompt; ids have shape (1, length)."""
    system = request.system if isinstance(request.system, str) or request.system is None else "".join(
        getattr(part, "text", "") for part in request.system
    )  # fmt: skip
    turns = [{"role": "system", "content": system}] if system else []
    turns += [{"role": m.role, "content": m.text or ""} for m in request.messages]
    if tokenizer.chat_template:
        text = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        return tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
    text = "\n\n".join(turn["content"] for turn in turns) + "\n\n"
    return tokenizer(text, return_tensors="pt").input_ids


def _stop_ids(tokenizer: Any, model: Any) -> set[int]:
    stops = model.generation_config.eos_token_id
    stops = [] if stops is None else stops if isinstance(stops, list) else [stops]
    return {*stops, *([tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else [])}


def _logprobs(tokenizer: Any, tokens: list[int], scores: Any, alternatives: int) -> tuple[TokenLogprob, ...]:
    """Natural log-probabilities, before temperature, of the chosen tokens and of the best alternatives."""
    chosen = []
    for position, token in enumerate(tokens):
        best = scores[position].topk(min(alternatives, scores.shape[1])) if alternatives else None
        top = () if best is None else tuple(
            TopLogprob(tokenizer.decode([index]), float(value), token_id=index)
            for value, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        )  # fmt: skip
        chosen.append(TokenLogprob(tokenizer.decode([token]), float(scores[position, token]), token_id=token, top=top))
    return tuple(chosen)


class AsyncHFEngine:
    """The same model for `acall`, run off the event loop."""

    def __init__(self, engine: HFEngine):
        self._engine = engine

    async def complete(self, request: Request) -> Response:
        """Reply to one request."""
        return await asyncio.to_thread(self._engine.complete, request)

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
