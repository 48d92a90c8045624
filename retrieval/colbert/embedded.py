"""The embedded ColBERT checkpoint as a model: MiniLM's token vectors, projected and scaled to unit length.

It needs neither Transformers nor colbert-ai, whose imports take seconds, and gives the same vectors.
"""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from knowgap.retrieval.bert import Bert
from knowgap.retrieval.colbert.packed_weights import pack_linear_layers
from knowgap.retrieval.device import half_precision, padded_batches
from knowgap.retrieval.window import EMBEDDED, Window, token_id, token_ids, tokenizer_of

SETTINGS, TOKEN_WEIGHTS = "knowgap.json", "token_weights.npy"
"""The files beside colbert-ai's: what the checkpoint is; and the weight of each token in a query, float32 [tokens]."""
QUERY_MARK, PASSAGE_MARK, PASSAGE_TOKENS = "[unused0]", "[unused1]", 300

_QUERY_TOKENS = 256
_TOKENS_PER_BATCH = {"cpu": 2048, "cuda": 32_768}  # on a CPU, as many as fit into its cache


def is_embedded(folder: Path) -> bool:
    """Whether a folder is an embedded checkpoint."""
    try:
        return json.loads((folder / SETTINGS).read_text(encoding="utf-8"))["encoder"] == EMBEDDED
    except (OSError, ValueError, KeyError, TypeError):
        return False


class EmbeddedModel:
    """A loaded checkpoint that `fit_checkpoint` wrote to a folder. Thread-safe.

    Attributes:
        dim: width of a token vector.
        window: how much of a passage is encoded.
        vocabulary: how many token ids there are.
        begin_token: the id of the token at the beginning of every text.

    Raises:
        OSError, KeyError, ValueError, RuntimeError, SafetensorError: a file is missing or damaged.
    """

    def __init__(self, folder: Path, device: str) -> None:
        self._bert, rest = Bert.load(folder, "bert.")
        self._linear = torch.nn.Linear(*reversed(rest["linear.weight"].shape), bias=False)
        self._linear.load_state_dict({"weight": rest["linear.weight"].float()})
        pack_linear_layers(self._bert.to(device))
        self._linear.to(device)
        self.dim, self._device = self._linear.out_features, device
        self._tokenizer = tokenizer_of(folder)
        self.window = Window(self._tokenizer, PASSAGE_TOKENS, 3)
        self.vocabulary, self.begin_token = self._tokenizer.get_vocab_size(), token_id(self._tokenizer, "[CLS]")
        self._padding = token_id(self._tokenizer, "[PAD]")
        marks = self._tokenizer.encode_batch([*string.punctuation], add_special_tokens=False)
        self._without = torch.tensor([*(mark.ids[0] for mark in marks), self._padding])
        weights = folder / TOKEN_WEIGHTS
        self._weights = np.load(weights, allow_pickle=False) if weights.is_file() else None

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of passages, cut off at the window, with [CLS], the passage mark and [SEP]."""
        return token_ids(self._tokenizer, texts, PASSAGE_TOKENS, PASSAGE_MARK)

    def passages(self, texts: Sequence[str]) -> list[npt.NDArray[np.float32]]:
        """The unit vectors of each passage without its punctuation, [tokens, dim]."""
        tokens = self.token_ids(texts)
        capacity = _TOKENS_PER_BATCH["cpu" if self._device == "cpu" else "cuda"]
        encoded: list[npt.NDArray[np.float32]] = [np.empty((0, self.dim), np.float32)] * len(tokens)
        for numbers, ids, attention in padded_batches(tokens, capacity, self._padding):
            vectors, kept = self._vectors(ids, attention), ~torch.isin(ids, self._without).numpy()
            for i, of_passage, own in zip(numbers, vectors, kept, strict=True):
                encoded[i] = of_passage[own]
        return encoded

    def query(self, text: str) -> npt.NDArray[np.float32]:
        """Unit vectors of at most 256 tokens of a query, multiplied by the weights of its tokens, [tokens, dim]."""
        [ids] = token_ids(self._tokenizer, [text], _QUERY_TOKENS, QUERY_MARK)
        [vectors] = self._vectors(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long))
        return vectors if self._weights is None else vectors * self._weights[ids][:, None]

    def _vectors(self, ids: torch.Tensor, attention: torch.Tensor) -> npt.NDArray[np.float32]:
        with torch.inference_mode(), half_precision(self._device):
            states = self._bert(ids.to(self._device), attention.to(self._device))
            return functional.normalize(self._linear(states), p=2, dim=2).float().cpu().numpy()
