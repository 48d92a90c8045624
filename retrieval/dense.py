"""A dense index: one vector for each passage, the nearest to the query's first (Karpukhin et al. 2020, "DPR")."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError, DataError, UsageError
from knowgap.retrieval.cache import Memory
from knowgap.retrieval.checkpoint import EMBEDDED, checkpoint_digest, resolve_checkpoint
from knowgap.retrieval.encoder import choose_device
from knowgap.retrieval.encoding import STATE, EncodingState, encode_corpus
from knowgap.retrieval.manifest import Manifest, Progress, build_index
from knowgap.retrieval.maxsim import TokenVectors
from knowgap.retrieval.minilm import MINILM_DIGEST, sentence_encoder
from knowgap.retrieval.passage import Hit, Passage
from knowgap.retrieval.store import PassageStore, Where, check_k, scored_hits, select_positions

__all__ = ["DenseIndex", "Embed"]

Embed: TypeAlias = Callable[[list[str]], Any]
"""Texts to vectors [texts, dim]: a `dspy.Embedder`, or any function of that form."""

_PROBE = "A lighthouse stands on the northern cape."
_QUERIES_AT_ONCE = 32
_KEPT_QUERIES = 8192


class _Encoder(Protocol):
    name: str
    digest: str

    def passages(self, texts: Sequence[str]) -> npt.NDArray[np.floating]: ...

    def queries(self, texts: Sequence[str]) -> npt.NDArray[np.floating]: ...


class _Embedded:
    name, digest = EMBEDDED, MINILM_DIGEST

    def passages(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        return sentence_encoder().encode(texts, remember=False)

    def queries(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        return sentence_encoder().encode(texts)


class _SentenceTransformer:
    """A bi-encoder of sentence-transformers; its own prompts for queries and documents are used where it has them."""

    def __init__(self, name: str, device: str | None) -> None:
        from knowgap.retrieval.colbert_runtime import quiet_transformers

        folder = resolve_checkpoint(name)
        self.name, self.digest = name, checkpoint_digest(folder)
        with quiet_transformers():
            from sentence_transformers import SentenceTransformer

            try:
                self._model: Any = SentenceTransformer(str(folder), device=choose_device(device))
            except (OSError, ValueError, KeyError, RuntimeError) as error:
                reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
                raise CheckpointError(f"{name}: cannot be loaded as a bi-encoder ({reason})") from error
        self._lock = threading.Lock()

    def passages(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        with self._lock:
            return self._model.encode_document(list(texts), show_progress_bar=False)

    def queries(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        with self._lock:  # one at a time, so that a vector does not depend on its neighbours in a batch
            return np.concatenate([self._model.encode_query([text], show_progress_bar=False) for text in texts])


class _Function:
    """Vectors from a function. Two functions are told apart by where they put a sentence, to three decimals."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self.name = str(getattr(embed, "model", None) or getattr(embed, "__name__", type(embed).__name__))
        probe = self.queries([_PROBE])[0].astype(np.float64)
        self.probe = np.round(probe / max(float(np.linalg.norm(probe)), 1e-12), 3).tolist()
        self.digest = ""

    def passages(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        vectors = np.asarray(self._embed(list(texts)), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise UsageError(
                f"embed: returned an array of shape {vectors.shape} for {len(texts)} texts; "
                "it must return one vector for each"
            )
        return vectors

    queries = passages


class DenseIndex:
    """An index of passages by one vector each, exact. Made by `build` or `open`; usable from many threads."""

    def __init__(self, path: Path, manifest: Manifest, encoder: str | Path | Embed | None, device: str | None) -> None:
        self.path, self.manifest = path, manifest
        self._given, self._device = encoder, device
        self._store = PassageStore(path)
        self._lock = threading.Lock()
        self._loaded: tuple[_Encoder, TokenVectors] | None = None
        self._queries: Memory[str, npt.NDArray[np.float32]] = Memory(_KEPT_QUERIES)

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
        with build_index(path, overwrite=overwrite) as workshop:
            store, digest = PassageStore.build(passages, workshop.folder)
            if not len(store):
                raise DataError("there are no passages to index")
            model = _load(encoder, device)
            checkpoint: dict[str, Any] = {"name": model.name, "digest": model.digest}
            if isinstance(model, _Function):
                checkpoint["probe"] = model.probe
            state = EncodingState.resume(workshop, {"corpus": digest, "checkpoint": checkpoint})
            dim = model.queries([_PROBE]).shape[1]
            manifest = Manifest("dense", len(store), digest, {"dim": dim}, checkpoint)
            if not workshop.stands(manifest):
                encode_corpus(store, lambda texts: _unit(model.passages(texts)), dim, workshop.folder, state, progress)
            workshop.finish(manifest, leave_out=[STATE])
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

    def __len__(self) -> int:
        return len(self._store)

    def _parts(self) -> tuple[_Encoder, TokenVectors]:
        with self._lock:
            if self._loaded is None:
                recorded = self.manifest.checkpoint
                if "probe" in recorded and not callable(self._given):
                    raise CheckpointError(
                        f"{self.path}: encoded by the function {recorded['name']}; open it with encoder=that function"
                    )
                encoder = _load(
                    self._given or (None if recorded["name"] == EMBEDDED else recorded["name"]), self._device
                )
                same = encoder.digest == recorded["digest"]
                if isinstance(encoder, _Function):
                    probe = recorded.get("probe", [])
                    same = len(probe) == len(encoder.probe) and float(np.dot(probe, encoder.probe)) > 0.98
                if not same:
                    raise CheckpointError(
                        f"{encoder.name}: not the encoder of {self.path} ({recorded['name']}); "
                        "give that one, or build the index again"
                    )
                dim = self.manifest.settings["dim"]
                self._loaded = encoder, TokenVectors.open(self.path, dim, device=choose_device(self._device))
            return self._loaded

    def search(
        self, queries: Sequence[str], k: int, *, ids: Collection[str] | None = None, where: Where | None = None
    ) -> list[list[Hit]]:
        """The `k` passages whose vectors have the highest cosine with that of each query.

        Args:
            queries: any strings; a blank one finds nothing.
            k: at most this many hits, from 1.
            ids: search only the passages with these ids.
            where: search only the passages for which this is true.

        Raises:
            ValueOutOfBounds: k < 1.
            CheckpointError: the encoder of the index is absent or another.
        """
        check_k(k)
        asked = [query for query in dict.fromkeys(queries) if query.strip()]
        found: dict[str, list[Hit]] = {}
        if asked:
            encoder, vectors = self._parts()
            allowed = select_positions(self._store, ids, where)
            for start in range(0, len(asked), _QUERIES_AT_ONCE):
                batch = asked[start : start + _QUERIES_AT_ONCE]
                encoded = self._queries.get(batch, lambda texts: list(_unit_rows(encoder.queries(texts))[:, None]))
                for query, vector, rough in zip(batch, encoded, vectors.scan(encoded, allowed), strict=True):
                    found[query] = scored_hits(self._store, *vectors.best(vector, k, rough, allowed), k)
        return [list(found.get(query, [])) for query in queries]

    def __copy__(self) -> DenseIndex:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> DenseIndex:
        return self


def _load(encoder: str | Path | Embed | None, device: str | None) -> _Encoder:
    if encoder is None:
        return _Embedded()
    return _SentenceTransformer(str(encoder), device) if isinstance(encoder, (str, Path)) else _Function(encoder)


def _unit_rows(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
    vectors = np.asarray(vectors, dtype=np.float32)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _unit(vectors: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.int32]]:
    return _unit_rows(vectors).astype(np.float16), np.ones(len(vectors), dtype=np.int32)
