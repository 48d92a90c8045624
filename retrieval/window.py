"""The interface of encoders, their tokens, and the number of tokens of a passage that an encoder reads."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EMBEDDED = "embedded MiniLM"
"""The name, in the manifest of an index, of an encoder that is made of MiniLM."""


@dataclass(frozen=True)
class Window:
    """How much of a passage an encoder reads.

    Args:
        tokenizer: splits texts as the encoder does, without cutting them off.
        size: the number of tokens of the longest passage that is encoded whole, marks included.
        marks: how many tokens the encoder adds: its special tokens, and those of a prompt for passages.
    """

    tokenizer: Tokenizer
    size: int
    marks: int

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, marks included."""
        encoded = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [len(text.ids) + self.marks for text in encoded]

    def warn_of_cut(self, texts: Sequence[str]) -> None:
        """Warn if the end of a text is not encoded."""
        if any(count > self.size for count in self.count(texts)):
            warnings.warn(
                f"passages are longer than the {self.size} tokens that the encoder reads: what comes after them is not "
                "searched (`knowgap index` splits long texts of --corpus FILE)",
                stacklevel=2,
            )


class Encoder(Protocol):
    """Encodes texts as vectors."""

    @property
    def dim(self) -> int:
        """Width of a vector."""
        ...

    @property
    def identity(self) -> dict[str, Any]:
        """What a manifest records of it: its name, the digest of its files, and more if that does not identify it."""
        ...

    @property
    def window(self) -> Window | None:
        """How much of a passage it encodes; None if that is not known."""
        ...

    def encode_passages(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
        """The unit vectors of all texts, [vectors, dim], text after text; and how many each text has, [texts]."""
        ...

    def encode_query(self, query: str) -> npt.NDArray[np.float32]:
        """The vectors of a query, [vectors, dim]."""
        ...


def tokenizer_of(source: Any) -> Tokenizer:
    """A copy of a tokenizer without truncation or padding; `source` is a folder or a fast tokenizer of Transformers."""
    from tokenizers import Tokenizer

    if isinstance(source, Path):
        tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    else:
        tokenizer = Tokenizer.from_str(source.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def token_ids(tokenizer: Tokenizer, texts: Sequence[str], most: int, mark: str = "") -> list[list[int]]:
    """Token ids as BERT reads texts: [CLS], perhaps a mark, the text, and [SEP]; a text is cut off at `most` ids."""
    begin = [token_id(tokenizer, name) for name in ("[CLS]", mark) if name]
    end, encoded = token_id(tokenizer, "[SEP]"), tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [[*begin, *text.ids[: most - len(begin) - 1], end] for text in encoded]


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a token that the vocabulary has."""
    found = tokenizer.token_to_id(token)
    assert found is not None, token
    return found


def model_window(model: Any) -> Window:
    """The window of a loaded model of sentence-transformers; its prompt for documents counts among the marks."""
    tokenizer = tokenizer_of(model.tokenizer)
    prompts = getattr(model, "prompts", {})
    prompt = next((prompts[name] for name in ("document", "passage", "corpus") if prompts.get(name)), "")
    marks = len(tokenizer.encode("").ids) + len(tokenizer.encode(prompt, add_special_tokens=False).ids)
    return Window(tokenizer, int(model.max_seq_length or model.tokenizer.model_max_length), marks)
