"""The encoders of dense indexes, which make one vector of each text: bi-encoders, and functions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from knowgap.errors import UsageError
from knowgap.retrieval.hub import choose_device, loading_model, model_digest, model_folder
from knowgap.retrieval.minilm import (
    EMBEDDED,
    MINILM_DIGEST,
    Window,
    embedded_window,
    sentence_vectors,
    tokenizer_of,
    unit,
)
from knowgap.retrieval.passage import encodable

Embed: TypeAlias = Callable[[list[str]], Any]
"""A function from texts to vectors [texts, dim], such as a `dspy.Embedder`."""

_CACHED_QUERIES = 8192


class DenseEncoder:
    """Encodes each text as one unit vector.

    Args:
        name: how an index names it.
        digest: the SHA-256 of its files; for a function, its name again.
        passages: encodes passages.
        queries: encodes queries.
        window: how much of a passage it reads; None if that is not known.
    """

    def __init__(self, name: str, digest: str, passages: Embed, queries: Embed, window: Window | None = None) -> None:
        self.identity, self.window, self._passages = {"name": name, "digest": digest}, window, passages
        self.encode_query = lru_cache(_CACHED_QUERIES)(lambda query: unit(_vectors(queries, [query])))
        """The unit vector of a query, [1, dim]."""

    @classmethod
    def load(cls, encoder: str | Path | Embed, *, named_by: Path | None = None) -> Self:
        """Load a bi-encoder of sentence-transformers by its folder or hub name, or wrap a function.

        Its prompts for queries and documents are used if it has them. `named_by` is the index that names it.
        """
        if not isinstance(encoder, (str, Path)):
            model = getattr(encoder, "model", None)
            name = model if isinstance(model, str) else getattr(encoder, "__name__", type(encoder).__name__)
            return cls(name, name, encoder, encoder)
        folder, lock = model_folder(encoder, named_by=named_by), threading.Lock()
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
    def embedded(cls, *index: Any) -> Self:
        """The embedded MiniLM encoder, which is the same in every index and for all passages."""
        return cls(EMBEDDED, MINILM_DIGEST, sentence_vectors, sentence_vectors, embedded_window())

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self.encode_query("A lighthouse stands on the northern cape.").shape[1]

    def encode_passages(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
        """Unit vectors [texts, dim], and the number of vectors of each text, which is always 1."""
        return unit(_vectors(self._passages, texts)), np.ones(len(texts), dtype=np.int32)


def _vectors(embed: Embed, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    vectors = np.asarray(embed(encodable(texts)), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise UsageError(f"the encoder returned an array of shape {vectors.shape} for {len(texts)} texts")
    return vectors


def _window(model: Any) -> Window:
    """The window of a loaded model of sentence-transformers; its prompt for documents counts among the marks."""
    tokenizer = tokenizer_of(model.tokenizer)
    prompts = getattr(model, "prompts", {})
    prompt = next((prompts[name] for name in ("document", "passage", "corpus") if prompts.get(name)), "")
    marks = len(tokenizer.encode("").ids) + len(tokenizer.encode(prompt, add_special_tokens=False).ids)
    return Window(tokenizer, int(model.max_seq_length or model.tokenizer.model_max_length), marks)
