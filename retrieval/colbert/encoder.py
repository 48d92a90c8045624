"""A ColBERT checkpoint that encodes texts into one unit vector per token (Khattab and Zaharia 2020)."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError

from knowgap.errors import CheckpointError, shorten
from knowgap.retrieval.colbert.embedded import EmbeddedModel, is_embedded
from knowgap.retrieval.device import choose_device, half_precision
from knowgap.retrieval.hub import loading_model, refuse_code
from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.window import Window, tokenizer_of

_QUERY_TOKENS = 256
_CACHED_QUERIES = 2048
_LENGTHS = {
    "artifact.metadata": "doc_maxlen",  # as colbert-ai saves a checkpoint
    "config_sentence_transformers.json": "document_length",  # as PyLate does
    "sentence_bert_config.json": "document_length",  # as sentence-transformers does
}


class TokenEncoder:
    """A loaded ColBERT checkpoint. Queries are encoded one at a time, so that their vectors do not depend on others.

    Args:
        folder: the embedded checkpoint; or one that colbert-ai (`artifact.metadata`), PyLate or sentence-transformers
            (`modules.json`) saved.
        device: where to compute; None takes a CUDA GPU if there is one.

    Attributes:
        dim: width of a token vector.
        window: how much of a passage is encoded.

    Raises:
        CheckpointError: the folder is not such a checkpoint, or it asks to run its own code.
    """

    def __init__(self, folder: str | Path, *, device: str | None = None) -> None:
        self.folder, self.device = Path(folder), choose_device(device)
        refuse_code(self.folder)
        self._model: Any = _Named(self.folder, self.device) if not is_embedded(self.folder) else self._embedded()
        self.dim: int = self._model.dim
        self.window: Window = self._model.window
        self._queries: LRUCache[str, npt.NDArray[np.float32]] = LRUCache(_CACHED_QUERIES)

    def _embedded(self) -> EmbeddedModel:
        try:
            return EmbeddedModel(self.folder, self.device)
        except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
            raise CheckpointError(f"{self.folder}: cannot be loaded ({shorten(error)})") from error

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
        return self._queries.get([query], lambda _: [self._encode_query(query)])[0]

    def _encode_query(self, query: str) -> npt.NDArray[np.float32]:
        vectors = self._model.query(query)
        vectors.setflags(write=False)
        return vectors


class _Named:
    """A checkpoint that sentence-transformers loads."""

    def __init__(self, folder: Path, device: str) -> None:
        size = passage_length(folder)
        if not (folder / "modules.json").is_file() and "HF_ColBERT" not in _architectures(folder):
            raise CheckpointError(
                f"{folder}: not a ColBERT checkpoint (its config.json does not name the architecture HF_ColBERT, "
                "without which its projection would be random)"
            )
        with loading_model(folder) as (source, arguments):
            from sentence_transformers import MultiVectorEncoder

            self._model: Any = MultiVectorEncoder(source, device=device, **arguments)
            first = self._model[0]
            first.query_length = _QUERY_TOKENS
            if first.query_expansion:  # it would cut longer queries off
                first.query_expansion = {**first.query_expansion, "strategy": "min"}
            self.dim = int(self._model.get_embedding_dimension())
        self._device, self._lock = device, threading.Lock()  # a tokenizer is not thread-safe
        self.window = Window(tokenizer_of(self._model.tokenizer), size, 3)

    def passages(self, texts: list[str]) -> list[npt.NDArray[np.float32]]:
        return self._encoded(self._model.encode_document, texts)

    def query(self, text: str) -> npt.NDArray[np.float32]:
        return self._encoded(self._model.encode_query, [text])[0]

    def _encoded(self, encode: Any, texts: list[str]) -> list[npt.NDArray[np.float32]]:
        with self._lock, half_precision(self._device):
            found = encode(texts, convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False)
        return [np.asarray(vectors, dtype=np.float32) for vectors in found]


def _architectures(folder: Path) -> list[str]:
    try:
        return json.loads((folder / "config.json").read_text(encoding="utf-8")).get("architectures") or []
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder}: not a ColBERT checkpoint ({shorten(error, 100)})") from error


def passage_length(folder: Path) -> int:
    """How many tokens of a passage a checkpoint in a folder reads, marks included.

    Raises:
        CheckpointError: its settings do not say so, or it was trained for another similarity than the cosine.
    """
    for name, key in _LENGTHS.items():
        try:
            settings = json.loads((folder / name).read_text(encoding="utf-8"))
            if settings.get("similarity", "cosine") != "cosine":
                reason = f"trained for the similarity {settings['similarity']!r}, not for cosines"
                raise CheckpointError(f"{folder}: {reason}")
            return int(settings[key])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    files = ", ".join(f"{key} of {name}" for name, key in _LENGTHS.items())
    raise CheckpointError(f"{folder}: not a ColBERT checkpoint (it has none of {files})")
