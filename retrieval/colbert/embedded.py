"""The embedded ColBERT checkpoint: MiniLM's token vectors, projected and scaled to unit length.

It is not trained as a ColBERT. Instead, two things are fitted to the corpus: a linear projection of the token vectors
onto their principal directions, with the strongest of these damped; and a weight for each token of a query, higher for
tokens that are rarer in the corpus. Its folder has only these. MiniLM comes with the package.
"""

from __future__ import annotations

import json
import shutil
import string
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.hub import choose_device, half_precision
from knowgap.retrieval.minilm import (
    CLS,
    EMBEDDED,
    MINILM_DIGEST,
    PAD,
    Window,
    minilm_folder,
    minilm_model,
    padded_batches,
    token_ids,
    tokenizer_of,
    unit,
)
from knowgap.retrieval.passage import Passage
from knowgap.storage.files import write_json

SETTINGS, PROJECTION, TOKEN_WEIGHTS = "knowgap.json", "projection.npy", "token_weights.npy"
"""The files: what the checkpoint is; the projection, float32 [dim, 384]; the weights of tokens in a query, float32."""
WIDTH, PROJECTED, FULL_WIDTH = 384, 128, 20_000
"""Widths of the embedded checkpoint's token vectors up to `FULL_WIDTH` passages, and for more passages."""

_DAMPING = 0.25
_PASSAGES_FOR_PROJECTION = 400
_PASSAGES_FOR_WEIGHTS = 20_000

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
        return unit(minilm_model(None)(ids) @ self._projection.T) * self._weights[ids][:, None]


def fit_checkpoint(
    passages: Sequence[Passage], folder: str | Path, *, dim: int | None = None, corpus: str = ""
) -> None:
    """Fit the embedded checkpoint to an evenly spaced sample of passages, and write it to a folder, which is created.

    Args:
        passages: the corpus.
        folder: where it is written; if the same checkpoint is there already, as a killed build left it, it is kept.
        dim: the width of a token vector; None takes 384, which retrieves best, for up to 20,000 passages, and 128, as
            in a trained ColBERT, for more.
        corpus: the digest of the passages. Together with MiniLM's it identifies the checkpoint instead of its own
            digest, since the last bits of its weights depend on the machine.

    Raises:
        CheckpointError: the MiniLM encoder is absent or altered.
    """
    folder, dim = Path(folder), dim or (WIDTH if len(passages) <= FULL_WIDTH else PROJECTED)
    settings = {"encoder": EMBEDDED, "fitted": [MINILM_DIGEST, corpus], "dim": dim}
    done = folder / SETTINGS  # is written last
    if done.is_file() and json.loads(done.read_bytes()) == settings:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = EmbeddedModel(np.eye(WIDTH, dtype=np.float32), np.ones(0, np.float32), "cpu")
    vectors = model.passages([str(passage) for passage in _spread(passages, _PASSAGES_FOR_PROJECTION)])
    np.save(folder / PROJECTION, fit_projection(np.concatenate(vectors), dim))
    sample = _spread(passages, _PASSAGES_FOR_WEIGHTS)
    weights = fit_token_weights((model.token_ids([str(passage)])[0] for passage in sample), model.vocabulary)
    weights[CLS] = 1.0  # it represents the whole query, and is in every passage
    np.save(folder / TOKEN_WEIGHTS, weights)
    write_json(done, settings)


def _spread(passages: Sequence[Passage], limit: int) -> list[Passage]:
    step = max(1, len(passages) // limit)
    return [passages[i] for i in range(0, len(passages), step)][:limit]


def fit_projection(vectors: npt.NDArray[np.floating], dim: int) -> npt.NDArray[np.float32]:
    """The principal directions of token vectors about the origin, each scaled by its eigenvalue to the power -1/4.

    The vectors are [tokens, width], and `dim` directions are kept. The power -1/2 would whiten the vectors. The power
    -1/4 keeps the few directions that all tokens share from dominating every cosine, without amplifying the noise of
    the weak directions.

    Returns:
        The matrix of a linear layer without bias, [dim, width]. If all directions are kept, it is the symmetric one,
        which turns the projection back to the axes of the vectors: the last digits of the vectors hardly change it,
        whereas they decide which are the principal directions of nearly equal strength.
    """
    vectors = np.asarray(vectors, dtype=np.float64)
    values, directions = np.linalg.eigh(vectors.T @ vectors / max(len(vectors), 1))
    values, directions = values[::-1][:dim], directions[:, ::-1][:, :dim]
    # The sign of an eigenvector is arbitrary; it is fixed so that a corpus always gives the same checkpoint.
    directions = directions * np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(dim)])
    scale = (np.maximum(values, 1e-6 * values[0]) / values[0]) ** -_DAMPING
    scaled = directions * scale
    return (scaled @ directions.T if dim == len(directions) else scaled.T).astype(np.float32)


def fit_token_weights(texts: Iterable[Sequence[int]], vocabulary: int) -> npt.NDArray[np.float32]:
    """Inverse document frequencies (Robertson's, as in BM25) of token ids, the highest scaled to 1. [vocabulary]."""
    frequency, count = np.zeros(vocabulary, dtype=np.int64), 0
    for ids in texts:
        frequency[np.unique(ids)] += 1
        count += 1
    weights = np.log1p((count - frequency + 0.5) / (frequency + 0.5))
    return (weights / weights.max()).astype(np.float32)
