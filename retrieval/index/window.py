"""How many tokens of a passage an encoder reads, found from its own tokenizer and settings."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowgap.retrieval.minilm import MAX_TOKENS, minilm_folder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["Window", "embedded_window", "engine_window", "model_window", "tokenizer_of", "warn_of_cut"]


@dataclass(frozen=True)
class Window:
    """The window of an encoder.

    Args:
        tokenizer: splits texts as the encoder does, without cutting them off.
        size: tokens of the longest passage that is encoded whole, with the marks that the encoder adds.
        marks: how many marks it adds.
    """

    tokenizer: Tokenizer
    size: int
    marks: int

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has for the encoder, marks included."""
        encoded = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [len(text.ids) + self.marks for text in encoded]

    def cut(self, texts: Sequence[str]) -> int:
        """How many of the texts are longer than the window."""
        return sum(count > self.size for count in self.count(texts))


def tokenizer_of(source: Any) -> Tokenizer:
    """A copy, which never cuts off or fills up, of a tokenizer: its folder, or a fast tokenizer of transformers."""
    from tokenizers import Tokenizer

    if isinstance(source, Path):
        tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    else:
        tokenizer = Tokenizer.from_str(source.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def embedded_window() -> Window:
    """The window of the embedded MiniLM encoder; the embedded ColBERT checkpoint, made from it, reads a little more."""
    return Window(tokenizer_of(minilm_folder()), MAX_TOKENS, 2)


def engine_window(engine: str, encoder: Any = None) -> Window | None:
    """The window of what encodes the passages of an index.

    Args:
        engine: a key of `ENGINES`.
        encoder: checkpoint or bi-encoder by folder or hub name, or a function; None is what is embedded.

    Returns:
        The window; None for an engine that encodes nothing, and for a function, whose window is not known.

    Raises:
        CheckpointError: there is no such encoder.
    """
    if engine == "bm25" or callable(encoder):
        return None
    if encoder is None:
        return embedded_window()
    from knowgap.retrieval.colbert.checkpoint import resolve_checkpoint

    folder = resolve_checkpoint(encoder)
    return _bi_encoder_window(folder) if engine == "dense" else _colbert_window(folder)


def _colbert_window(folder: Path) -> Window:
    """The window of a ColBERT checkpoint: `doc_maxlen`, in which [CLS], [D] and [SEP] stand."""
    from knowgap.errors import CheckpointError

    metadata = folder / "artifact.metadata"
    try:
        size = json.loads(metadata.read_text(encoding="utf-8"))["doc_maxlen"]
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{folder}: not a ColBERT checkpoint (doc_maxlen of {metadata.name}: {error})") from error
    if (folder / "tokenizer.json").is_file():
        return Window(tokenizer_of(folder), int(size), 3)
    from transformers import AutoTokenizer

    return Window(tokenizer_of(AutoTokenizer.from_pretrained(str(folder))), int(size), 3)


def _bi_encoder_window(folder: Path) -> Window:
    """The window of a bi-encoder of sentence-transformers."""
    from knowgap.retrieval.dense import load_sentence_transformer

    return model_window(load_sentence_transformer(str(folder), folder, "cpu"))


def model_window(model: Any) -> Window:
    """The window of a loaded model of sentence-transformers; its prompt for documents counts among the marks."""
    tokenizer = tokenizer_of(model.tokenizer)
    prompts = getattr(model, "prompts", {})
    prompt = next((prompts[name] for name in ("document", "passage", "corpus") if prompts.get(name)), "")
    marks = len(tokenizer.encode("").ids) + len(tokenizer.encode(prompt, add_special_tokens=False).ids)
    return Window(tokenizer, int(model.max_seq_length or model.tokenizer.model_max_length), marks)


def warn_of_cut(cut: int, total: int, window: Window | None) -> None:
    """Warn if the ends of some of the passages were not encoded."""
    if cut and window is not None:
        warnings.warn(
            f"{cut:,} of {total:,} passages are longer than the {window.size} tokens that the encoder reads: what "
            "follows these is not searched (`knowgap index` splits long texts of --corpus FILE)",
            stacklevel=2,
        )
