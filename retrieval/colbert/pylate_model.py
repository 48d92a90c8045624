"""A ColBERT checkpoint in PyLate's format, such as lightonai/GTE-ModernColBERT-v1, run by sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from knowgap.errors import CheckpointError, shorten
from knowgap.retrieval.hub import loading_model

_MODULES, _SETTINGS = "modules.json", "config_sentence_transformers.json"
_OWN = ("sentence_transformers.", "pylate.models.Dense.")  # modules whose code does not come with the model


class PyLateColBERT(nn.Module):
    """The modules of a checkpoint, with the attributes and methods of `BertColBERT`.

    Raises:
        CheckpointError: the folder is not such a checkpoint, or the checkpoint has its own code.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        length = document_length(folder)
        modules = json.loads((folder / _MODULES).read_text(encoding="utf-8"))
        if others := [each["type"] for each in modules if not each["type"].startswith(_OWN)]:
            raise CheckpointError(f"{folder}: its {_MODULES} asks to run code from elsewhere ({others[0]}); refused")
        with loading_model(folder) as (source, arguments):
            from sentence_transformers import MultiVectorEncoder

            self.encoder: Any = MultiVectorEncoder(source, device="cpu", **arguments)
        self.raw_tokenizer: Any = self.encoder.tokenizer
        expansion = getattr(self.encoder[0], "query_expansion", None) or {"length": 0, "attend": False}
        self.colbert_config: Any = SimpleNamespace(
            query_maxlen=expansion["length"],
            doc_maxlen=length,
            mask_punctuation=True,  # the checkpoint's own mask is used
            attend_to_mask_tokens=expansion["attend"],
            similarity="cosine",
            query_token_id=self._mark(folder, "query"),
            doc_token_id=self._mark(folder, "document"),
            dim=int(self.encoder.get_embedding_dimension()),
        )

    @staticmethod
    def can_load(folder: Path) -> bool:
        """Whether a folder has this format."""
        return (folder / _MODULES).is_file() and not (folder / "artifact.metadata").is_file()

    def _mark(self, folder: Path, task: str) -> str:
        """The token that marks a query or a document, after the first token."""
        prompt = self.encoder.prompts.get(task) or ""
        for token in (prompt, prompt.strip()):
            if token and self.raw_tokenizer.tokenize(token) == [token]:
                return token
        raise CheckpointError(f"{folder}: what marks a {task} ({prompt!r}) is no token of its tokenizer")

    def query(self, ids: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
        """Unit vectors, [texts, tokens, dim]."""
        return self._vectors(ids, attention, "query")[0]

    def doc(self, ids: torch.Tensor, attention: torch.Tensor, keep_dims: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Unit vectors, [texts, tokens, dim], and a mask of those to keep, [texts, tokens, 1]."""
        return self._vectors(ids, attention, "document")

    def _vectors(self, ids: torch.Tensor, attention: torch.Tensor, task: str) -> tuple[torch.Tensor, torch.Tensor]:
        place = next(self.encoder.parameters()).device
        made = self.encoder({"input_ids": ids.to(place), "attention_mask": attention.to(place)}, task=task)
        return nn.functional.normalize(made["token_embeddings"], dim=-1), made["attention_mask"].bool()[..., None]


def document_length(folder: Path) -> int:
    """How many tokens of a document a checkpoint reads, including three special tokens.

    Raises:
        CheckpointError: its settings do not give the number.
    """
    try:
        return int(json.loads((folder / _SETTINGS).read_text(encoding="utf-8"))["document_length"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"document_length of {_SETTINGS}: {shorten(error, 100)}"
        raise CheckpointError(f"{folder}: not a ColBERT checkpoint ({reason})") from error
