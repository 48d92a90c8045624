"""Load a causal or sequence-to-sequence model of Transformers with its tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowgap.errors import LanguageModelError, MissingDependency

__all__ = ["LocalModel", "load_model", "require_transformers", "wrap_model"]


@dataclass(frozen=True, eq=False)
class LocalModel:
    """A model that generates text, and what its tokenizer and its settings say of it.

    Attributes:
        name: folder or hub name that it was loaded from.
        tokenizer: its tokenizer.
        model: the model, in evaluation mode, on its device.
        end_ids: tokens that end a reply.
        pad_id: token that fills a batch up; it is masked, so any will do.
    """

    name: str
    tokenizer: Any
    model: Any
    end_ids: tuple[int, ...]
    pad_id: int

    @property
    def device(self) -> Any:
        """The device that inputs must be on."""
        return self.model.device

    @property
    def is_seq2seq(self) -> bool:
        """Whether an encoder reads the prompt and a decoder writes the reply (T5, BART)."""
        return bool(self.model.config.is_encoder_decoder)

    @property
    def window(self) -> int | None:
        """The most tokens that the model reads; None where it has no limit of its own (relative positions)."""
        return getattr(self.model.config.get_text_config(), "max_position_embeddings", None)


def require_transformers() -> None:
    """Raise `MissingDependency` unless torch and Transformers are installed."""
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingDependency("a local model needs torch and transformers: pip install torch transformers") from error


def load_model(path_or_id: str, device: str | None = None, dtype: str = "auto") -> LocalModel:
    """Load a model: sequence-to-sequence where its configuration says so, else causal.

    Args:
        path_or_id: a model folder, or a name on the hub.
        device: `cpu`, `cuda`, `cuda:1`, …; by default a GPU if there is one.
        dtype: `float32`, `bfloat16` or `float16`; `auto` is the checkpoint's own on a GPU, and float32 on a CPU, where
            half precision is slow.

    Raises:
        LanguageModelError: the folder is no model, is damaged, or lacks weights that generating needs; or the device
            is not there.
        MissingDependency: torch or Transformers is not installed.
    """
    require_transformers()
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer
    from transformers.utils import logging

    folder = Path(path_or_id).expanduser()
    name = str(folder) if folder.exists() else path_or_id
    if folder.exists() and not (folder / "config.json").is_file():
        raise LanguageModelError(f"no Transformers model at {path_or_id!r}: the folder must hold a config.json")
    shows_progress = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        config = AutoConfig.from_pretrained(name)
        kind: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        wanted = "float32" if dtype == "auto" and place.type == "cpu" else dtype
        tokenizer: Any = AutoTokenizer.from_pretrained(name)
        model, report = kind.from_pretrained(name, dtype=wanted, output_loading_info=True)
        model = model.to(place).eval()
    except Exception as error:  # whatever a damaged checkpoint, an unknown architecture or an absent device raises
        reason = " ".join(str(error).split())[:200]
        raise LanguageModelError(f"the local model {path_or_id!r} cannot be loaded: {reason}") from error
    finally:
        if shows_progress:
            logging.enable_progress_bar()
    missing = sorted(report["missing_keys"])
    if missing:
        raise LanguageModelError(
            f"the local model {path_or_id!r} cannot generate: its checkpoint lacks {len(missing)} of the weights of "
            f"{type(model).__name__} ({missing[0]}, …); give a model that was trained to write"
        )
    return wrap_model(path_or_id, tokenizer, model)


def wrap_model(name: str, tokenizer: Any, model: Any) -> LocalModel:
    """A model that is loaded, as this room asks it."""
    stated = model.generation_config.eos_token_id
    every = [*(stated if isinstance(stated, list) else [stated]), tokenizer.eos_token_id]
    ends: list[int] = list(dict.fromkeys(token for token in every if token is not None))
    pads: tuple[int | None, ...] = (tokenizer.pad_token_id, model.generation_config.pad_token_id, *ends, 0)
    return LocalModel(name, tokenizer, model, tuple(ends), next(pad for pad in pads if pad is not None))
