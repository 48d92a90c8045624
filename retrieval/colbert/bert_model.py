"""A BERT-based ColBERT checkpoint, loaded without colbert-ai and Transformers, but with the same results."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from knowgap.retrieval.bert import Bert, FastTokenizer

_SETTINGS = (
    "query_maxlen",
    "doc_maxlen",
    "mask_punctuation",
    "attend_to_mask_tokens",
    "similarity",
    "query_token_id",
    "doc_token_id",
)


class BertColBERT(nn.Module):
    """BERT followed by a linear layer, whose vectors are scaled to unit length.

    Attributes:
        colbert_config: the settings in `artifact.metadata`, and `dim`.
        raw_tokenizer: the tokenizer.
        skiplist: ids of tokens that have no vector in passages.

    Raises:
        KeyError, ValueError, RuntimeError: the weights do not fit the settings.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        metadata = json.loads((folder / "artifact.metadata").read_text(encoding="utf-8"))
        self.bert, rest = Bert.load(folder, "bert.")
        width, size = rest["linear.weight"].shape
        if metadata.get("dim", width) != width:
            raise ValueError(f"{width} dimensions of the weights, not {metadata['dim']}")
        self.linear = nn.Linear(size, width, bias=False)
        self.linear.load_state_dict({"weight": rest["linear.weight"]})
        self.colbert_config: Any = SimpleNamespace(**{**metadata, "dim": width})
        self.raw_tokenizer = FastTokenizer(folder / "tokenizer.json")
        marks = self.raw_tokenizer([*string.punctuation], add_special_tokens=False)["input_ids"]
        self.skiplist: dict[int, bool] = {ids[0]: True for ids in marks}

    @staticmethod
    def can_load(folder: Path) -> bool:
        """Whether the checkpoint is a BERT with all settings that are needed."""
        metadata = json.loads((folder / "artifact.metadata").read_text(encoding="utf-8"))
        return all(name in metadata for name in _SETTINGS) and Bert.can_load(folder)

    def query(self, ids: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
        """Unit vectors, [texts, tokens, dim]; 0 for padding."""
        return self._vectors(ids, attention, [])[0]

    def doc(self, ids: torch.Tensor, attention: torch.Tensor, keep_dims: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Unit vectors, [texts, tokens, dim], and a mask of those to keep, [texts, tokens, 1]."""
        return self._vectors(ids, attention, [*self.skiplist])

    def _vectors(
        self, ids: torch.Tensor, attention: torch.Tensor, left_out: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        without = torch.tensor([*left_out, self.raw_tokenizer.pad_token_id])
        kept = ~torch.isin(ids.cpu(), without).to(self.linear_device)[..., None]
        vectors = self.linear(self.bert(ids.to(self.linear_device), attention.to(self.linear_device)))
        return functional.normalize(vectors * kept.float(), p=2, dim=2), kept

    @property
    def linear_device(self) -> torch.device:
        """The device of the weights."""
        return self.bert.embeddings["word_embeddings"].weight.device
