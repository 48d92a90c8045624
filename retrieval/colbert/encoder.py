"""A ColBERT checkpoint that encodes texts into one unit vector per token (Khattab and Zaharia 2020)."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from knowgap.errors import CheckpointError, shorten
from knowgap.retrieval.colbert.embedded import SETTINGS, EmbeddedModel, fit_checkpoint
from knowgap.retrieval.hub import choose_device, half_precision, loading_model, model_digest, model_folder
from knowgap.retrieval.index.manifest import CHECKPOINT
from knowgap.retrieval.minilm import EMBEDDED, Window, tokenizer_of
from knowgap.retrieval.passage import Passage
from knowgap.storage.files import json_digest

_QUERY_TOKENS = 256
_CACHED_QUERIES = 2048


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
    def inside(cls, index: Path) -> Self:
        """Load the embedded checkpoint that is inside an index."""
        return cls((index / CHECKPOINT).absolute(), EMBEDDED)

    @classmethod
    def fitted(cls, folder: Path, passages: Sequence[Passage], corpus: str) -> Self:
        """Fit the embedded checkpoint to passages, whose digest is `corpus`, in a folder, and load it."""
        fit_checkpoint(passages, folder, dim=cls.width, corpus=corpus)
        return cls(folder.absolute(), EMBEDDED)

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
            found = encode(texts, convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False)
        return [np.asarray(vectors, dtype=np.float32) for vectors in found]
