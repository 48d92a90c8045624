"""The embedded ColBERT checkpoint as a model: MiniLM's token vectors, projected and scaled to unit length.

Its folder has only what is fitted to a corpus: the projection and the weights of tokens. MiniLM comes with the package.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.device import choose_device, half_precision
from knowgap.retrieval.minilm import PAD, minilm_folder, minilm_model, padded_batches, token_ids, unit
from knowgap.retrieval.numpy_bert import numpy_minilm
from knowgap.retrieval.window import Window, tokenizer_of

SETTINGS, PROJECTION, TOKEN_WEIGHTS = "knowgap.json", "projection.npy", "token_weights.npy"
"""The files: what the checkpoint is; the projection, float32 [dim, 384]; the weights of tokens in a query, float32."""
_QUERY_MARK, _PASSAGE_MARK = 1, 2  # ids of tokens that texts do not have
_PASSAGE_TOKENS, _QUERY_TOKENS = 300, 256
_TOKENS_PER_BATCH = {"cpu": 2048, "cuda": 32_768}  # on a CPU, as many as fit into its cache


class EmbeddedModel:
    """MiniLM with a projection of its token vectors. Thread-safe.

    Args:
        projection: the matrix of a linear layer without bias, [dim, 384].
        token_weights: the weight of each token id in a query, [vocabulary].
        device: where torch encodes passages; None chooses.

    Attributes:
        dim: width of a token vector.
        window: how much of a passage is encoded.
        vocabulary: how many token ids there are.

    Raises:
        CheckpointError: the MiniLM encoder is absent or altered.
    """

    def __init__(
        self,
        projection: npt.NDArray[np.float32],
        token_weights: npt.NDArray[np.float32],
        device: str | None = None,
    ) -> None:
        self._projection, self._weights, self._device = projection, token_weights, device
        self.dim, self._tokenizer = len(projection), tokenizer_of(minilm_folder())
        self.window = Window(self._tokenizer, _PASSAGE_TOKENS, 3)
        self.vocabulary = self._tokenizer.get_vocab_size()
        marks = self._tokenizer.encode_batch([*string.punctuation], add_special_tokens=False)
        self._without = [*(mark.ids[0] for mark in marks), PAD]

    @classmethod
    def load(cls, folder: Path) -> EmbeddedModel:
        """Load a checkpoint that `fit_checkpoint` wrote.

        Raises:
            OSError, ValueError: a file is missing or damaged.
        """
        return cls(*(np.load(folder / name, allow_pickle=False) for name in (PROJECTION, TOKEN_WEIGHTS)))

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of passages, cut off at the window, with [CLS], the passage mark and [SEP]."""
        return token_ids(self._tokenizer, texts, _PASSAGE_TOKENS, _PASSAGE_MARK)

    def passages(self, texts: Sequence[str]) -> list[npt.NDArray[np.float32]]:
        """The unit vectors of each passage without its punctuation, [tokens, dim]."""
        import torch

        device = self._device or choose_device()
        bert, projection = minilm_model(device), torch.from_numpy(self._projection.T).to(device)
        tokens, capacity = self.token_ids(texts), _TOKENS_PER_BATCH["cpu" if device == "cpu" else "cuda"]
        encoded: list[npt.NDArray[np.float32]] = [np.empty((0, self.dim), np.float32)] * len(tokens)
        for numbers, ids, attention in padded_batches(tokens, capacity):
            with torch.inference_mode(), half_precision(device):
                states = bert(ids.to(device), attention.to(device)) @ projection
                vectors = torch.nn.functional.normalize(states, p=2, dim=2).float().cpu().numpy()
            for i, of_passage, own in zip(numbers, vectors, ~np.isin(ids, self._without), strict=True):
                encoded[i] = of_passage[own]
        return encoded

    def query(self, text: str) -> npt.NDArray[np.float32]:
        """Unit vectors of at most 256 tokens of a query, multiplied by the weights of its tokens, [tokens, dim]."""
        [ids] = token_ids(self._tokenizer, [text], _QUERY_TOKENS, _QUERY_MARK)
        return unit(numpy_minilm()(ids) @ self._projection.T) * self._weights[ids][:, None]
