"""How much of a passage an encoder reads."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
