"""A dense index: one vector for each passage, compared with the query's vector (Karpukhin et al. 2020, "DPR")."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError, UsageError
from knowgap.retrieval.colbert.checkpoint import EMBEDDED, checkpoint_digest, resolve_checkpoint
from knowgap.retrieval.device import choose_device
from knowgap.retrieval.hub import loading_model, refuse_code
from knowgap.retrieval.index.build import start_build
from knowgap.retrieval.index.encoding import EncodingState
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.vector_index import VectorIndex, write_vectors
from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.minilm import MINILM_DIGEST, sentence_encoder, unit
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.window import Window, embedded_window, model_window
from knowgap.storage.progress import Progress, no_progress

Embed: TypeAlias = Callable[[list[str]], Any]
"""A function from texts to vectors [texts, dim], such as a `dspy.Embedder`."""

_PROBE = "A lighthouse stands on the northern cape."
_CACHED_QUERIES = 8192


@dataclass(frozen=True)
class DenseEncoder:
    """Encodes each text as one unit vector."""

    name: str
    digest: str  # the SHA-256 of its files; empty for a function, which is recognized by its vector of a sentence
    passages: Embed
    queries: Embed
    device: str = "cpu"
    window: Window | None = None  # how much of a passage it reads, if that is known
    _cache: LRUCache[str, npt.NDArray[np.float32]] = field(default_factory=lambda: LRUCache(_CACHED_QUERIES))

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self.encode_query(_PROBE).shape[1]

    @property
    def identity(self) -> dict[str, Any]:
        """The name and digest, as a manifest records them; for a function, also its vector of a fixed sentence."""
        probe = {} if self.digest else {"probe": np.round(self.encode_query(_PROBE)[0].astype(float), 3).tolist()}
        return {"name": self.name, "digest": self.digest, **probe}

    def is_that_of(self, recorded: dict[str, Any]) -> bool:
        """Whether the identity that a manifest records belongs to this encoder."""
        mine, probe = self.identity.get("probe", []), recorded.get("probe", [])
        if self.digest != recorded["digest"] or len(mine) != len(probe):
            return False
        return not probe or float(np.dot(mine, probe)) > 0.98

    def encode_passages(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
        """Unit vectors [texts, dim], and the number of vectors of each text, which is always 1."""
        if not texts:
            return np.empty((0, self.dim), np.float32), np.empty(0, np.int32)
        return unit(self.passages(list(texts))), np.ones(len(texts), dtype=np.int32)

    def encode_query(self, query: str) -> npt.NDArray[np.float32]:
        """A unit vector [1, dim]; the latest 8,192 queries are cached."""
        return self._cache.get([query], lambda texts: list(unit(self.queries(texts))[:, None]))[0]


def load_encoder(
    encoder: str | Path | Embed | None, device: str | None, *, named_by: Path | None = None
) -> DenseEncoder:
    """Load a bi-encoder by folder or hub name, wrap a function, or load the embedded MiniLM encoder for None.

    `named_by` is the index that names it; see `resolve_checkpoint`.
    """
    if encoder is None:
        embed = sentence_encoder().encode
        passages = functools.partial(embed, remember=False)
        return DenseEncoder(EMBEDDED, MINILM_DIGEST, passages, embed, window=embedded_window())
    if not isinstance(encoder, (str, Path)):
        return _wrap_function(encoder)
    return _load_bi_encoder(str(encoder), resolve_checkpoint(encoder, named_by=named_by), device)


def _load_bi_encoder(name: str, folder: Path, device: str | None) -> DenseEncoder:
    """Load a bi-encoder of sentence-transformers; its prompts for queries and documents are used if it has them."""
    device, lock = choose_device(device), threading.Lock()
    model = load_sentence_transformer(folder, device)

    def locked(encode: Callable[..., Any]) -> Embed:
        def call(texts: list[str]) -> Any:
            with lock:
                return encode(texts, show_progress_bar=False)

        return call

    digest = checkpoint_digest(folder)
    encode, encode_query = locked(model.encode_document), locked(model.encode_query)
    return DenseEncoder(name, digest, encode, encode_query, device, model_window(model))


def load_sentence_transformer(folder: Path, device: str) -> Any:
    """Load a bi-encoder of sentence-transformers.

    Raises:
        CheckpointError: it cannot be loaded.
    """
    refuse_code(folder)
    with loading_model(folder) as (source, arguments):
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(source, device=device, **arguments)


def _wrap_function(embed: Embed) -> DenseEncoder:
    def vectors(texts: list[str]) -> npt.NDArray[np.float32]:
        array = np.asarray(embed(texts), dtype=np.float32)
        if array.ndim != 2 or len(array) != len(texts):
            raise UsageError(
                f"embed returned an array of shape {array.shape} for {len(texts)} texts; "
                "it must return one vector for each"
            )
        return array

    model = getattr(embed, "model", None)
    name = model if isinstance(model, str) else str(getattr(embed, "__name__", type(embed).__name__))
    return DenseEncoder(name, "", vectors, vectors)


class DenseIndex(VectorIndex):
    """An index with one vector for each passage, and exact search. Made by `build` or `open`; thread-safe."""

    def __init__(self, path: Path, manifest: Manifest, encoder: str | Path | Embed | None, device: str | None) -> None:
        super().__init__(path, manifest, device)
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
        """Encode passages and write an index, or continue an interrupted call with the same arguments.

        Args:
            passages: what to index; read once. Title and text are encoded together.
            path: the folder; if it already holds the same index, that is opened.
            encoder: a bi-encoder of sentence-transformers by folder or hub name (`facebook/contriever`); or a
                function from texts to vectors, such as `dspy.Embedder("openai/text-embedding-3-large")`. None takes
                the embedded MiniLM encoder.
            device: where to encode; None takes a CUDA GPU if there is one.
            overwrite: replace another index at the path.
            progress: called after each chunk of passages.

        Raises:
            DataError: there are no passages, or two with the same id.
            CheckpointError: no such encoder.
            UsageError: another index is at the path, or the function does not return vectors.
        """
        with start_build(path, overwrite=overwrite) as build:
            store = build.store(passages)
            model = load_encoder(encoder, device)
            state = EncodingState.resume(build, {"checkpoint": model.identity})
            manifest = build.manifest("dense", store, {"dim": model.dim}, model.identity)
            write_vectors(build, store, model, state, manifest, progress or no_progress)
        return cls.open(path, encoder=encoder, device=device)

    @classmethod
    def open(
        cls, path: str | Path, *, encoder: str | Path | Embed | None = None, device: str | None = None
    ) -> DenseIndex:
        """Open an index that `build` wrote. The encoder is loaded at the first search.

        Args:
            path: its folder.
            encoder: the folder or hub name of its encoder, if that has changed; or the function that encoded it.
            device: where to encode; None takes a CUDA GPU if there is one.

        Raises:
            IndexMissing, IndexForeign, IndexDamaged: see `Manifest.read`.
        """
        return cls(Path(path), Manifest.read(path, engine="dense"), encoder, device)

    @staticmethod
    def window_of(encoder: str | Path | None) -> Window:
        """The window of a bi-encoder by folder or hub name; None is the embedded one.

        Raises:
            CheckpointError: there is no such encoder.
        """
        if encoder is None:
            return embedded_window()
        return model_window(load_sentence_transformer(resolve_checkpoint(encoder), "cpu"))

    def _load_encoder(self) -> DenseEncoder:
        recorded = self.manifest.checkpoint
        if "probe" in recorded and not callable(self._given):
            raise CheckpointError(
                f"{self.path}: encoded by the function {recorded['name']}; open it with that function as encoder=…"
            )
        if self._given is None and recorded["name"] != EMBEDDED:
            encoder = load_encoder(recorded["name"], self._device, named_by=self.path)
        else:
            encoder = load_encoder(self._given, self._device)
        if not encoder.is_that_of(recorded):
            raise CheckpointError(
                f"{encoder.name}: not the encoder of {self.path} ({recorded['name']}); "
                "give that one, or build the index again"
            )
        return encoder
