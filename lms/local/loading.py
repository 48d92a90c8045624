"""Load a causal or sequence-to-sequence model of Transformers, and make the tokens that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dspy.utils.exceptions import ContextWindowExceededError

from knowgap.errors import LanguageModelError
from knowgap.lms.transcripts import CHAT_TEMPLATE, END
from knowgap.retrieval.colbert.stock_runtime import quiet_transformers
from knowgap.retrieval.device import bfloat16_on
from knowgap.retrieval.hub import model_source, why_not_loaded

Turn = Mapping[str, str]
"""A message of a conversation: its `role` and its `content`."""


@dataclass(frozen=True, eq=False)
class LocalModel:
    """A model that generates text, with its tokenizer and its special tokens.

    Attributes:
        name: folder or hub name that it was loaded from.
        tokenizer: its tokenizer.
        model: the model, in evaluation mode, on its device.
        end_ids: tokens that end a reply.
        pad_id: token that pads a batch; it is masked, so that any token will do.
    """

    name: str
    tokenizer: Any
    model: Any
    end_ids: tuple[int, ...]
    pad_id: int

    @property
    def is_seq2seq(self) -> bool:
        """Whether an encoder reads the prompt and a decoder writes the reply (T5, BART)."""
        return bool(self.model.config.is_encoder_decoder)

    def text_ids(self, text: str) -> list[int]:
        """The tokens of an unchanged text, with the special tokens that the tokenizer adds to a whole input."""
        return list(self.tokenizer(text, verbose=False).input_ids)

    def chat_ids(self, turns: Sequence[Turn]) -> list[int]:
        """The tokens of a conversation, up to where the reply begins.

        A chat template that refuses the system role, or leaves it out, gets the system prompt at the beginning of the
        first user turn. Without a chat template, the turns are joined with blank lines. If the last turn is the
        assistant's, the reply continues it.
        """
        if not self.tokenizer.chat_template:
            return self.text_ids("\n\n".join(turn["content"] for turn in turns) + "\n\n")
        from jinja2.exceptions import TemplateError

        ends = {"add_generation_prompt": True}
        if turns[-1]["role"] == "assistant":
            ends = {"continue_final_message": True}
        system, *rest = turns
        ways = [turns]
        if system["role"] == "system" and rest:
            ways.append([{**rest[0], "content": f"{system['content']}\n\n{rest[0]['content']}"}, *rest[1:]])
        problem: object = None
        for way in ways:
            try:
                text = self.tokenizer.apply_chat_template([dict(turn) for turn in way], tokenize=False, **ends)
            except TemplateError as error:
                problem = error
                continue
            if way is ways[-1] or system["content"].strip() in text:
                return list(self.tokenizer(text, add_special_tokens=False, verbose=False).input_ids)
        raise LanguageModelError(f"the chat template of {self.name!r} cannot render these messages: {problem}")

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


@contextmanager
def _loading(path_or_id: str, problem: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what `model_source` returns; an error in the block becomes a `LanguageModelError` on `problem`."""
    name = path_or_id
    try:
        name, arguments = model_source(path_or_id)
        yield name, arguments
    except Exception as error:  # whatever a damaged checkpoint, an unknown architecture or an absent device raises
        raise LanguageModelError(f"{problem}: {why_not_loaded(error, name)}") from error


def read_config(path_or_id: str) -> Any:
    """The configuration of a model, by folder or hub name, without its weights.

    Raises:
        LanguageModelError: the folder holds no model, or the hub has none of this name.
    """
    from transformers import AutoConfig

    with _loading(path_or_id, f"the configuration of {path_or_id!r} cannot be read") as (name, arguments):
        return AutoConfig.from_pretrained(name, **arguments)


def load_tokenizer(path_or_id: str) -> Any:
    """The tokenizer of a model, by folder or hub name, without its weights.

    Raises:
        LanguageModelError: the folder holds none, or the hub has none of this name.
    """
    from transformers import AutoTokenizer

    with _loading(path_or_id, f"the tokenizer of {path_or_id!r} cannot be loaded") as (name, arguments):
        return AutoTokenizer.from_pretrained(name, **arguments)


def load_model(path_or_id: str, device: str | None = None, dtype: str = "auto", **more: Any) -> LocalModel:
    """Load a model: sequence-to-sequence if its configuration says so, else causal.

    Args:
        path_or_id: a model folder, or a name on the hub.
        device: as for `HFEngine`.
        dtype: as for `HFEngine`.
        more: further arguments of `from_pretrained`; a `device_map` places the model instead of the device.

    Raises:
        LanguageModelError: the folder holds no model, a damaged one, or one without the weights for generation; or the
            device does not exist.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    problem = f"the local model {path_or_id!r} cannot be loaded"
    with quiet_transformers(), _loading(path_or_id, problem) as (name, arguments):
        place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        config = AutoConfig.from_pretrained(name, **arguments)
        kind: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        wanted = dtype
        if dtype == "auto" and place.type == "cpu":
            half = getattr(config, "dtype", None) == torch.bfloat16 and bfloat16_on("cpu")
            wanted = "bfloat16" if half else "float32"
        tokenizer: Any = AutoTokenizer.from_pretrained(name, **arguments)
        model, report = kind.from_pretrained(name, dtype=wanted, output_loading_info=True, **arguments, **more)
        model = (model if "device_map" in more else model.to(place)).eval()
    if not tokenizer.chat_template and END in tokenizer.get_vocab():  # as in RQ-RAG's release
        tokenizer.chat_template = CHAT_TEMPLATE
    missing = sorted(report["missing_keys"])
    if missing:
        raise LanguageModelError(
            f"the local model {path_or_id!r} cannot generate: its checkpoint lacks {len(missing)} of the weights of "
            f"{type(model).__name__} ({missing[0]}, …); give a model that was trained to write"
        )
    stated = model.generation_config.eos_token_id
    every = [*(stated if isinstance(stated, list) else [stated]), tokenizer.eos_token_id]
    ends: list[int] = list(dict.fromkeys(token for token in every if token is not None))
    pads: tuple[int | None, ...] = (tokenizer.pad_token_id, model.generation_config.pad_token_id, *ends, 0)
    return LocalModel(path_or_id, tokenizer, model, tuple(ends), next(pad for pad in pads if pad is not None))
