"""A local model of Transformers as a DSPy engine: greedy or drawn replies, with log-probabilities of their tokens."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from dspy.lm15 import Message, Request, Response, TokenLogprob, Usage
from dspy.utils.exceptions import ContextWindowExceededError

from knowgap.errors import CheckpointError, LanguageModelError
from knowgap.lms.engines import InProcessEngine
from knowgap.lms.transcripts import CHAT_TEMPLATE, END
from knowgap.retrieval.hub import bfloat16_on, check_trained, loading_model
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
    """

    supported_params = frozenset({"temperature", "top_p", "max_tokens", "logprobs", "seed", "stop"})

    def __init__(self, path_or_id: str, device: str | None = None, max_new_tokens: int = 512):
        self.max_new_tokens = max_new_tokens
        self.settings = {"path_or_id": path_or_id, "device": device, "max_new_tokens": max_new_tokens}
        self._lock = threading.Lock()

    @functools.cached_property
    def local(self) -> LocalModel:
        """The model, which is loaded when it is first asked for."""
        return LocalModel(self.settings["path_or_id"], self.settings["device"])

    def complete(self, request: Request) -> Response:
        """Reply to one request, with token log-probabilities if `request.config.logprobs` is set.

        Raises:
            LanguageModelError: the model cannot be loaded, or its chat template cannot render the conversation.
            ContextWindowExceededError: the prompt is longer than the model's context window.
        """
        system, config = str(request.system or ""), request.config
        turns: list[Mapping[str, str]] = [{"role": "system", "content": system}] if system else []
        turns += [{"role": message.role, "content": message.text or ""} for message in request.messages]
        with self._lock:
            local = self.local
            ids = local.chat_ids(turns)
            limit = local.room(len(ids), config.max_tokens or self.max_new_tokens)
            tokens, logprobs = local.generate(ids, limit, config)
        decode = local.tokenizer.decode
        ended = bool(tokens) and tokens[-1] in local.end_ids
        said = tokens[:-1] if ended else tokens
        text = decode(said, skip_special_tokens=True)
        stopped = next((end for end in config.stop or () if end in text), None)
        scored = zip(said, logprobs, strict=False)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(text if stopped is None else text.partition(stopped)[0]),
            finish_reason="stop" if ended or stopped is not None else "length",
            usage=Usage(input_tokens=len(ids), output_tokens=len(tokens)),
            logprobs=tuple(TokenLogprob(decode([token]), p, token_id=token) for token, p in scored) or None,
        )


class LocalModel:
    """A model that generates text: sequence-to-sequence if its configuration says so, else causal.

    Attributes:
        name: folder or hub name that it was loaded from.
        tokenizer: its tokenizer.
        model: the model, in evaluation mode, on its device.
        end_ids: tokens that end a reply.
        is_seq2seq: whether an encoder reads the prompt and a decoder writes the reply (T5, BART).

    Args:
        path_or_id: a model folder, or a name on the hub.
        device: as for `HFEngine`.
        dtype: as Transformers takes it, `auto` for the checkpoint's own. None is that on a GPU; on a CPU it is bfloat16
            if the checkpoint is and the processor computes in it, else float32.

    Raises:
        LanguageModelError: the folder holds no model, a damaged one, or one without the weights for generation; or the
            device does not exist.
    """

    def __init__(self, path_or_id: str, device: str | None = None, dtype: str | None = None):
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

        try:
            with loading_model(path_or_id) as (name, arguments):
                place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
                config = AutoConfig.from_pretrained(name, **arguments)
                kind: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
                half = getattr(config, "dtype", None) == torch.bfloat16 and bfloat16_on("cpu")
                dtype = dtype or ("auto" if half or place.type != "cpu" else "float32")
                self.tokenizer: Any = AutoTokenizer.from_pretrained(name, **arguments)
                model, report = kind.from_pretrained(name, dtype=dtype, output_loading_info=True, **arguments)
                check_trained(path_or_id, type(model), report)
                self.model: Any = model.to(place).eval()
        except CheckpointError as error:
            raise LanguageModelError(f"the local model {error}") from error
        if not self.tokenizer.chat_template and END in self.tokenizer.get_vocab():  # as in RQ-RAG's release
            self.tokenizer.chat_template = CHAT_TEMPLATE
        stated = model.generation_config.eos_token_id
        ends = [*(stated if isinstance(stated, list) else [stated]), self.tokenizer.eos_token_id]
        self.is_seq2seq = bool(config.is_encoder_decoder)
        self.name, self.end_ids = path_or_id, tuple(dict.fromkeys(token for token in ends if token is not None))

    def chat_ids(self, turns: Sequence[Mapping[str, str]]) -> list[int]:
        """The tokens of a conversation, up to where the reply begins.

        A chat template that refuses the system role gets the system prompt at the beginning of the first user turn.
        Without a chat template, the turns are joined with blank lines. If the last turn is the assistant's, the reply
        continues it.
        """
        if not self.tokenizer.chat_template:
            text = "\n\n".join(turn["content"] for turn in turns) + "\n\n"
            return list(self.tokenizer(text, verbose=False).input_ids)
        from jinja2.exceptions import TemplateError

        continued = turns[-1]["role"] == "assistant"
        ends = {"continue_final_message": True} if continued else {"add_generation_prompt": True}
        try:
            text = self.tokenizer.apply_chat_template([dict(turn) for turn in turns], tokenize=False, **ends)
        except TemplateError as error:
            system, *rest = turns
            if system["role"] == "system" and rest:
                first = {**rest[0], "content": f"{system['content']}\n\n{rest[0]['content']}"}
                return self.chat_ids([first, *rest[1:]])
            problem = f"the chat template of {self.name!r} cannot render these messages: {error}"
            raise LanguageModelError(problem) from error
        return list(self.tokenizer(text, add_special_tokens=False, verbose=False).input_ids)

    def room(self, prompt: int, wanted: int) -> int:
        """The tokens that the model may write after `prompt` tokens: those wanted, or those its context window leaves.

        Raises:
            ContextWindowExceededError: the context window leaves none.
        """
        window = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if window is None:  # positions are relative
            return wanted
        left = window - (0 if self.is_seq2seq else prompt)
        if prompt > window or left < 1:
            raise ContextWindowExceededError(
                message=f"the prompt has {prompt} tokens, and the model {self.name!r} reads at most {window}: "
                "let the program read fewer or shorter passages (top_k), or take a model with a longer window",
                model=self.name,
            )
        return min(wanted, left)

    def generate(self, ids: list[int], limit: int, config: Any) -> tuple[list[int], list[float]]:
        """Write at most `limit` tokens after `ids`, as the configuration of a request says.

        The checkpoint's own settings for special tokens, penalties and forbidden tokens hold, those for sampling do
        not.

        Returns:
            The tokens, the one that ends the reply included, and their log-probabilities: natural logarithms of the
            model's own probabilities, before temperature; empty if not asked for.
        """
        import torch

        draws = {"temperature": config.temperature, "top_p": config.top_p, "top_k": 0}
        sampling = {name: value for name, value in draws.items() if value is not None} if config.temperature else {}
        settings = copy.deepcopy(self.model.generation_config)
        settings.update(
            do_sample=bool(sampling), **{**dict.fromkeys(draws), **sampling}, min_p=None, typical_p=None, num_beams=1,
            max_length=None, min_length=None, max_new_tokens=limit, eos_token_id=list(self.end_ids) or None,
            pad_token_id=(*self.end_ids, 0)[0], num_return_sequences=1, return_dict_in_generate=True,
            output_logits=config.logprobs is not None, stop_strings=list(config.stop or ()) or None,
        )  # fmt: skip
        device = self.model.device
        with torch.inference_mode(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(torch.seed() if config.seed is None else config.seed)
            given = torch.tensor([ids], device=device)
            output = self.model.generate(
                input_ids=given,
                attention_mask=torch.ones_like(given),
                generation_config=settings,
                tokenizer=self.tokenizer,  # for the stop texts
            )
            tokens = output.sequences[0, 1 if self.is_seq2seq else len(ids) :]
            steps = [] if output.logits is None else output.logits
            scores = [float(step[0].float().log_softmax(-1)[token]) for step, token in zip(steps, tokens, strict=False)]
        return tokens.tolist(), scores
