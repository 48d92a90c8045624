"""ColBERT checkpoints, which encode texts into one unit vector per token (Khattab and Zaharia 2020).

The embedded one is MiniLM, and is not trained as a ColBERT. Instead, two things are fitted to the corpus: a linear
projection of the token vectors onto their principal directions, with the strongest of these damped; and a weight for
each token of a query, higher for tokens that are rarer in the corpus. Its folder has only these. MiniLM comes with the
package.
"""

from __future__ import annotations

import json
import shutil
import string
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from knowgap.errors import CheckpointError, shorten
from knowgap.retrieval.hub import choose_device, half_precision, loading_model, model_digest, model_folder
from knowgap.retrieval.index.manifest import CHECKPOINT
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
from knowgap.retrieval.passage import Passage, encodable
from knowgap.storage.files import json_digest, write_json

SETTINGS, PROJECTION, TOKEN_WEIGHTS = "knowgap.json", "projection.npy", "token_weights.npy"
"""The files: what the checkpoint is; the projection, float32 [dim, 384]; the weights of tokens in a query, float32."""
WIDTH, PROJECTED, FULL_WIDTH = 384, 128, 20_000
"""Widths of the embedded checkpoint's token vectors up to `FULL_WIDTH` passages, and for more passages."""

_DAMPING = 0.25
_PASSAGES_FOR_PROJECTION = 400
_PASSAGES_FOR_WEIGHTS = 20_000

_QUERY_MARK, _PASSAGE_MARK = 1, 2  # ids of tokens that texts do not have
_PASSAGE_TOKENS, _QUERY_TOKENS, _CACHED_QUERIES = 300, 256, 2048
_TOKENS_PER_BATCH = {"cpu": 2048, "cuda": 32_768}  # on a CPU, as many as fit into its cache


class TokenEncoder:
    """A loaded ColBERT checkpoint. Queries are encoded one at a time, so that their vectors do not depend on others.

    Args:
        folder: the embedded checkpoint; or one that colbert-ai (`artifact.metadata`), PyLate or sentence-transformers
            (`modules.json`) saved.
        name: how an index names it; None takes the folder.

    Attributes:
        dim: width of a token vector.
        window: how much of a passage is encoded.
        identity: name and digest, as a manifest records them.

    Raises:
        CheckpointError: the folder is not such a checkpoint, or it asks to run its own code.
    """

    width: ClassVar[int | None] = None  # of the embedded checkpoint; None takes what suits the number of passages

    def __init__(self, folder: str | Path, name: str | Path | None = None) -> None:
        folder = Path(folder)
        try:
            self._model: Any = (EmbeddedModel.load if (folder / SETTINGS).is_file() else _Named)(folder)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{folder}: cannot be loaded ({shorten(error)})") from error
        self.dim: int = self._model.dim
        self.window: Window = self._model.window
        # The last bits of the embedded checkpoint depend on the machine: what it was fitted to identifies it.
        fitted = json.loads((folder / SETTINGS).read_bytes())["fitted"] if name == EMBEDDED else None
        digest = json_digest(fitted) if fitted else model_digest(folder)
        self.identity: dict[str, Any] = {"name": str(name or folder), "digest": digest}
        self._queries = lru_cache(_CACHED_QUERIES)(self._model.query)

    @classmethod
    def load(cls, name: str | Path, *, named_by: Path | None = None) -> Self:
        """Load a checkpoint by its folder or hub name; `named_by` is the index that names it."""
        return cls(model_folder(name, named_by=named_by), name)

    @classmethod
    def embedded(cls, index: Path, passages: Sequence[Passage] = (), corpus: str = "") -> Self:
        """Load the embedded checkpoint inside an index, fitted to passages, if given, whose digest is `corpus`."""
        folder = (index / CHECKPOINT).absolute()
        if passages:
            fit_checkpoint(passages, folder, dim=cls.width, corpus=corpus)
        return cls(folder, EMBEDDED)

    def encode_passages(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
        """Encode passages, without their punctuation if the checkpoint says so.

        Returns:
            Unit vectors [tokens, dim], one passage after another, and the number of tokens of each passage [texts].
        """
        encoded = self._model.passages(list(texts)) if texts else []
        lengths = np.array([len(vectors) for vectors in encoded], dtype=np.int32)
        return np.concatenate([np.empty((0, self.dim), np.float32), *encoded]), lengths

    def encode_query(self, query: str) -> npt.NDArray[np.float32]:
        """The vectors of at most 256 tokens of a query, [tokens, dim]; the latest 2,048 queries are cached.

        They are unit vectors; those of the embedded checkpoint are multiplied by the weights of their tokens. A query
        that is shorter than a checkpoint wants is filled up with [MASK].
        """
        return self._queries(query)


class _Named:
    """A checkpoint that sentence-transformers loads."""

    def __init__(self, folder: Path) -> None:
        config, self._device = folder / "config.json", choose_device()
        own = config.is_file() and '"HF_ColBERT"' in config.read_text(encoding="utf-8")
        if not own and not (folder / "modules.json").is_file():
            raise CheckpointError(
                f"{folder}: not a ColBERT checkpoint (its config.json does not name the architecture HF_ColBERT, "
                "without which its projection would be random)"
            )
        with loading_model(folder) as (source, arguments):
            from sentence_transformers import MultiVectorEncoder

            self._model: Any = MultiVectorEncoder(source, device=self._device, **arguments)
            first = self._model[0]
            if not first.document_length:
                raise CheckpointError(f"{folder}: not a ColBERT checkpoint (it does not say how long a passage may be)")
            first.query_length = _QUERY_TOKENS
            if first.query_expansion:  # it would cut longer queries off
                first.query_expansion = {**first.query_expansion, "strategy": "min"}
            self.dim = int(self._model.get_embedding_dimension())
        self._lock = threading.Lock()  # a tokenizer is not thread-safe
        self.window = Window(tokenizer_of(self._model.tokenizer), int(first.document_length), 3)

    def passages(self, texts: list[str]) -> list[npt.NDArray[np.float32]]:
        return self._encoded(self._model.encode_document, texts)

    def query(self, text: str) -> npt.NDArray[np.float32]:
        return self._encoded(self._model.encode_query, [text])[0]

    def _encoded(self, encode: Any, texts: list[str]) -> list[npt.NDArray[np.float32]]:
        with self._lock, half_precision(self._device):
            found = encode(encodable(texts), convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False)
        return [np.asarray(vectors, dtype=np.float32) for vectors in found]


class EmbeddedModel:
    """MiniLM with a projection of its token vectors. Thread-safe.

    Args:
        projection: the matrix of a linear layer without bias, [dim, 384].
        token_weights: the weight of each token id in a query, [vocabulary].
        device: where torch encodes passages; None chooses.

    Attributes:
        dim: width of a token vector.
        window: how much of a passage is encoded.

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
    vocabulary = model.window.tokenizer.get_vocab_size()
    weights = fit_token_weights((model.token_ids([str(passage)])[0] for passage in sample), vocabulary)
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
