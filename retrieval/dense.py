"""A dense index: one vector for each passage, the nearest to the query's first (Karpukhin et al. 2020, "DPR")."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError, DataError, UsageError
from knowgap.retrieval.colbert.checkpoint import EMBEDDED, checkpoint_digest, resolve_checkpoint
from knowgap.retrieval.device import choose_device
from knowgap.retrieval.index.build import Progress, start_build
from knowgap.retrieval.index.encoding import STATE, EncodingState, encode_corpus
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.passage_store import PassageStore
from knowgap.retrieval.index.vector_index import VectorIndex
from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.minilm import MINILM_DIGEST, sentence_encoder
from knowgap.retrieval.passage import Passage

__all__ = ["DenseIndex", "Embed"]

Embed: TypeAlias = Callable[[list[str]], Any]
"""Texts to vectors [texts, dim]: a `dspy.Embedder`, or any function of that form."""

_PROBE = "A lighthouse stands on the northern cape."
_KEPT_QUERIES = 8192


class DenseEncoder(ABC):
    """Texts to one unit vector each.

    Attributes:
        name: which model it is.
        digest: the SHA-256 of its files; empty where it has none.
        device: where it computes.
    """

    name: str
    digest: str
    device: str = "cpu"

    def __init__(self) -> None:
        self._memory: LRUCache[str, npt.NDArray[np.float32]] = LRUCache(_KEPT_QUERIES)

    @abstractmethod
    def _passages(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        """[texts, dim], of any length."""

    @abstractmethod
    def _queries(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        """[texts, dim], of any length."""

    @cached_property
    def dim(self) -> int:
        """Width of a vector."""
        return self._queries([_PROBE]).shape[1]

    def encode_passages(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.int32]]:
        """Unit vectors [texts, dim], and how many each text has: 1."""
        if not texts:
            return np.empty((0, self.dim), np.float16), np.empty(0, np.int32)
        return _unit(self._passages(texts)).astype(np.float16), np.ones(len(texts), dtype=np.int32)

    def encode_query(self, query: str) -> npt.NDArray[np.float32]:
        """A unit vector [1, dim]; the latest 8,192 queries are remembered."""
        return self._memory.get([query], lambda texts: list(_unit(self._queries(texts))[:, None]))[0]


class _Embedded(DenseEncoder):
    name, digest = EMBEDDED, MINILM_DIGEST

    def _passages(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        return sentence_encoder().encode(texts, remember=False)

    def _queries(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        return sentence_encoder().encode(texts)


class _SentenceTransformer(DenseEncoder):
    """A bi-encoder of sentence-transformers; its own prompts for queries and documents are used where it has them."""

    def __init__(self, name: str, device: str | None) -> None:
        from knowgap.retrieval.colbert.stock_runtime import quiet_transformers

        super().__init__()
        folder = resolve_checkpoint(name)
        self.name, self.digest, self.device = name, checkpoint_digest(folder), choose_device(device)
        with quiet_transformers():
            from sentence_transformers import SentenceTransformer

            try:
                self._model: Any = SentenceTransformer(str(folder), device=self.device)
            except (OSError, ValueError, KeyError, RuntimeError) as error:
                reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
                raise CheckpointError(f"{name}: cannot be loaded as a bi-encoder ({reason})") from error
        self._lock = threading.Lock()

    def _passages(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        with self._lock:
            return self._model.encode_document(list(texts), show_progress_bar=False)

    def _queries(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        with self._lock:
            return self._model.encode_query(list(texts), show_progress_bar=False)


class _Function(DenseEncoder):
    """Vectors from a function. Two functions are told apart by where they put a sentence, to three decimals."""

    digest = ""

    def __init__(self, embed: Embed) -> None:
        super().__init__()
        self._embed = embed
        model = getattr(embed, "model", None)
        self.name = model if isinstance(model, str) else str(getattr(embed, "__name__", type(embed).__name__))
        self.probe: list[float] = np.round(self.encode_query(_PROBE)[0].astype(np.float64), 3).tolist()

    def _passages(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        vectors = np.asarray(self._embed(list(texts)), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise UsageError(
                f"embed: returned an array of shape {vectors.shape} for {len(texts)} texts; "
                "it must return one vector for each"
            )
        return vectors

    _queries = _passages


class DenseIndex(VectorIndex[DenseEncoder]):
    """An index of passages by one vector each, exact. Made by `build` or `open`; usable from many threads."""

    def __init__(self, path: Path, manifest: Manifest, encoder: str | Path | Embed | None, device: str | None) -> None:
        super().__init__(path, manifest, device=device)
        self._given = encoder

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        *,
        encoder: str | Path | Embed | None = None,
        device: str | None = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> DenseIndex:
        """Encode passages and write an index; or go on where an earlier call with the same arguments was interrupted.

        Args:
            passages: what to index; read once. Title and text are encoded together.
            path: the folder; where the same index already stands there, it is opened as it is.
            encoder: a bi-encoder of sentence-transformers by folder or hub name (`facebook/contriever`); or a
                function from texts to vectors, such as `dspy.Embedder("openai/text-embedding-3-large")`. None takes
                the embedded MiniLM encoder.
            device: where to encode; None takes a CUDA GPU where there is one.
            overwrite: replace another index that stands at the path.
            progress: called after each chunk of passages.

        Raises:
            DataError: there are no passages, or two with the same id.
            CheckpointError: no such encoder.
            UsageError: another index stands at the path, or the function does not return vectors.
        """
        with start_build(path, overwrite=overwrite) as build:
            store, digest = PassageStore.build(passages, build.folder)
            if not len(store):
                raise DataError("there are no passages to index")
            model = _load(encoder, device)
            checkpoint: dict[str, Any] = {"name": model.name, "digest": model.digest}
            if isinstance(model, _Function):
                checkpoint["probe"] = model.probe
            state = EncodingState.resume(build, {"corpus": digest, "checkpoint": checkpoint})
            manifest = Manifest("dense", len(store), digest, {"dim": model.dim}, checkpoint)
            if not build.already_built(manifest):
                encode_corpus(store, model.encode_passages, model.dim, build.folder, state, progress)
            build.finish(manifest, leave_out=[STATE])
        return cls.open(path, encoder=encoder, device=device)

    @classmethod
    def open(
        cls, path: str | Path, *, encoder: str | Path | Embed | None = None, device: str | None = None
    ) -> DenseIndex:
        """Open an index that `build` wrote. The encoder is loaded at the first search.

        Args:
            path: its folder.
            encoder: where its encoder is now, if not where it was; or the function that encoded it.
            device: where to encode and score; None takes a CUDA GPU where there is one.

        Raises:
            IndexMissing, IndexForeign, IndexDamaged: see `Manifest.read`.
        """
        return cls(Path(path), Manifest.read(path, engine="dense"), encoder, device)

    def _load_encoder(self) -> DenseEncoder:
        recorded = self.manifest.checkpoint
        if "probe" in recorded and not callable(self._given):
            raise CheckpointError(
                f"{self.path}: encoded by the function {recorded['name']}; open it with encoder=that function"
            )
        encoder = _load(self._given or (None if recorded["name"] == EMBEDDED else recorded["name"]), self._device)
        same = encoder.digest == recorded["digest"]
        if isinstance(encoder, _Function):
            probe = recorded.get("probe", [])
            same = len(probe) == len(encoder.probe) and float(np.dot(probe, encoder.probe)) > 0.98
        if not same:
            raise CheckpointError(
                f"{encoder.name}: not the encoder of {self.path} ({recorded['name']}); "
                "give that one, or build the index again"
            )
        return encoder


def _load(encoder: str | Path | Embed | None, device: str | None) -> DenseEncoder:
    if encoder is None:
        return _Embedded()
    return _SentenceTransformer(str(encoder), device) if isinstance(encoder, (str, Path)) else _Function(encoder)


def _unit(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
    vectors = np.asarray(vectors, dtype=np.float32)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
