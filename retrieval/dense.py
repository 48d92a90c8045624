"""The encoders of dense indexes, which make one vector of each text: bi-encoders, and functions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from knowgap.errors import UsageError
from knowgap.retrieval.hub import choose_device, loading_model, model_digest, model_folder, refuse_code
from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.minilm import (
    EMBEDDED,
    MINILM_DIGEST,
    Window,
    embedded_window,
    sentence_encoder,
    tokenizer_of,
    unit,
)
from knowgap.retrieval.passage import Passage
from knowgap.storage.progress import Progress

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
    window: Window | None = None  # how much of a passage it reads, if that is known
    _cache: LRUCache[str, npt.NDArray[np.float32]] = field(default_factory=lambda: LRUCache(_CACHED_QUERIES))

    @classmethod
    def load(cls, encoder: str | Path | Embed, *, named_by: Path | None = None) -> Self:
        """Load a bi-encoder of sentence-transformers by its folder or hub name, or wrap a function.

        Its prompts for queries and documents are used if it has them. `named_by` is the index that names it.
        """
        if not isinstance(encoder, (str, Path)):
            return cls._of_function(encoder)
        folder, lock = model_folder(encoder, named_by=named_by), threading.Lock()
        refuse_code(folder)
        with loading_model(folder) as (source, arguments):
            from sentence_transformers import SentenceTransformer

            model = SentenceTransformer(source, device=choose_device(), **arguments)

        def locked(encode: Callable[..., Any]) -> Embed:
            def call(texts: list[str]) -> Any:
                with lock:
                    return encode(texts, show_progress_bar=False)

            return call

        encode, encode_query = locked(model.encode_document), locked(model.encode_query)
        return cls(str(encoder), model_digest(folder), encode, encode_query, _window(model))

    @classmethod
    def _of_function(cls, embed: Embed) -> Self:
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
        return cls(name, "", vectors, vectors)

    @classmethod
    def inside(cls, index: Path | None = None) -> Self:
        """The embedded MiniLM encoder, which is the same in every index."""
        embed = sentence_encoder().encode
        return cls(EMBEDDED, MINILM_DIGEST, embed, embed, embedded_window())

    @classmethod
    def fitted(cls, folder: Path, passages: Sequence[Passage], corpus: str, progress: Progress) -> Self:
        """The embedded MiniLM encoder, to which nothing is fitted."""
        return cls.inside()

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self.encode_query(_PROBE).shape[1]

    @property
    def identity(self) -> dict[str, Any]:
        """The name and digest, as a manifest records them; for a function, also its vector of a fixed sentence."""
        probe = {} if self.digest else {"probe": np.round(self.encode_query(_PROBE)[0].astype(float), 3).tolist()}
        return {"name": self.name, "digest": self.digest, **probe}

    def encode_passages(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
        """Unit vectors [texts, dim], and the number of vectors of each text, which is always 1."""
        if not texts:
            return np.empty((0, self.dim), np.float32), np.empty(0, np.int32)
        return unit(self.passages(list(texts))), np.ones(len(texts), dtype=np.int32)

    def encode_query(self, query: str) -> npt.NDArray[np.float32]:
        """A unit vector [1, dim]; the latest 8,192 queries are cached."""
        return self._cache.get([query], lambda texts: list(unit(self.queries(texts))[:, None]))[0]


def _window(model: Any) -> Window:
    """The window of a loaded model of sentence-transformers; its prompt for documents counts among the marks."""
    tokenizer = tokenizer_of(model.tokenizer)
    prompts = getattr(model, "prompts", {})
    prompt = next((prompts[name] for name in ("document", "passage", "corpus") if prompts.get(name)), "")
    marks = len(tokenizer.encode("").ids) + len(tokenizer.encode(prompt, add_special_tokens=False).ids)
    return Window(tokenizer, int(model.max_seq_length or model.tokenizer.model_max_length), marks)
