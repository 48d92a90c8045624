"""A ColBERT index: late interaction over the token vectors of passages (Khattab and Zaharia 2020)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError, DataError
from knowgap.retrieval.checkpoint import EMBEDDED, checkpoint_digest, resolve_checkpoint, write_embedded_checkpoint
from knowgap.retrieval.encoder import TokenEncoder, choose_device
from knowgap.retrieval.encoding import EncodingState, encode_corpus
from knowgap.retrieval.manifest import Manifest, Progress, build_index
from knowgap.retrieval.maxsim import TokenVectors
from knowgap.retrieval.passage import Hit, Passage, rank_hits
from knowgap.retrieval.store import PassageStore, Where, check_k, select_positions

__all__ = ["ColBERTIndex"]

_CHECKPOINT = "checkpoint"
_QUERIES_AT_ONCE = 32


class ColBERTIndex:
    """An index of passages by the vectors of their tokens. Made by `build` or `open`; usable from many threads."""

    def __init__(self, path: Path, manifest: Manifest, *, checkpoint: str | Path | None, device: str | None) -> None:
        self.path, self.manifest = path, manifest
        self._checkpoint, self._device = checkpoint, device
        self._store = PassageStore(path)
        self._lock = threading.Lock()
        self._loaded: tuple[TokenEncoder, TokenVectors] | None = None

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        *,
        checkpoint: str | Path | None = None,
        dim: int = 128,
        device: str | None = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> ColBERTIndex:
        """Encode passages and write an index; or go on where an earlier call with the same arguments was interrupted.

        Args:
            passages: what to index; read once. Title and text are encoded together.
            path: the folder; where the same index already stands there, it is opened as it is.
            checkpoint: a ColBERT checkpoint by folder or hub name (`colbert-ir/colbertv2.0`). None makes one from the
                embedded MiniLM encoder and the corpus, which needs no network, and keeps it inside the index.
            dim: width of the token vectors, for the embedded checkpoint: a multiple of 16 up to 384.
            device: where to encode; None takes a CUDA GPU where there is one.
            overwrite: replace another index that stands at the path.
            progress: called after each chunk of passages.

        Raises:
            DataError: there are no passages, or two with the same id.
            CheckpointError: no such checkpoint, or a damaged one.
            ValueOutOfBounds: dim or device.
            UsageError: another index stands at the path.
        """
        device = choose_device(device)
        with build_index(path, overwrite=overwrite) as workshop:
            folder = workshop.folder
            store, digest = PassageStore.build(passages, folder)
            if not len(store):
                raise DataError("there are no passages to index")
            state = EncodingState.resume(workshop, {"corpus": digest, "checkpoint": str(checkpoint), "dim": dim})
            if checkpoint is None:
                if not state.checkpoint:
                    if progress:
                        progress(0, 1, "fitting the embedded checkpoint")
                    write_embedded_checkpoint(store, folder / _CHECKPOINT, dim=dim)
                    state.save(checkpoint=checkpoint_digest(folder / _CHECKPOINT))
                where = folder / _CHECKPOINT
            else:
                where = resolve_checkpoint(checkpoint)
                if state.checkpoint != (found := checkpoint_digest(where)):
                    state.save(checkpoint=found, passages=0, tokens=0)
            name = EMBEDDED if checkpoint is None else str(checkpoint)
            encoder = TokenEncoder(where, device=device)
            manifest = Manifest(
                "colbert", len(store), digest, {"dim": encoder.dim}, {"name": name, "digest": state.checkpoint}
            )
            if not workshop.stands(manifest):
                encode_corpus(store, encoder.encode_passages, encoder.dim, folder, state, progress)
                state.finish()
            workshop.finish(manifest)
        return cls.open(path, checkpoint=checkpoint, device=device)

    @classmethod
    def open(cls, path: str | Path, *, checkpoint: str | Path | None = None, device: str | None = None) -> ColBERTIndex:
        """Open an index that `build` wrote. The encoder is loaded at the first search.

        Args:
            path: its folder.
            checkpoint: where its checkpoint is now, if that is neither inside the index nor where it was.
            device: where to encode and score; None takes a CUDA GPU where there is one.

        Raises:
            IndexMissing, IndexForeign, IndexDamaged: see `Manifest.read`.
        """
        return cls(Path(path), Manifest.read(path, engine="colbert"), checkpoint=checkpoint, device=device)

    def __len__(self) -> int:
        return len(self._store)

    @property
    def encoder(self) -> TokenEncoder:
        """The checkpoint of the index, loaded; its digest is compared with the manifest's when that happens.

        Raises:
            CheckpointError: it is absent, or not the one that encoded the passages.
        """
        return self._parts()[0]

    def _parts(self) -> tuple[TokenEncoder, TokenVectors]:
        with self._lock:
            if self._loaded is None:
                recorded = self.manifest.checkpoint
                inside = self.path / _CHECKPOINT
                folder = resolve_checkpoint(
                    self._checkpoint or (inside if recorded["name"] == EMBEDDED else recorded["name"])
                )
                if checkpoint_digest(folder) != recorded["digest"]:
                    raise CheckpointError(
                        f"{folder}: not the checkpoint that encoded {self.path} ({recorded['name']}); "
                        "give that one, or build the index again"
                    )
                encoder = TokenEncoder(folder, device=self._device)
                self._loaded = encoder, TokenVectors.open(self.path, encoder.dim, device=encoder.device)
            return self._loaded

    def search(
        self, queries: Sequence[str], k: int, *, ids: Collection[str] | None = None, where: Where | None = None
    ) -> list[list[Hit]]:
        """The `k` passages that match each query best.

        Args:
            queries: any strings; a blank one finds nothing, and of a long one the first 256 tokens count.
            k: at most this many hits, from 1.
            ids: search only the passages with these ids.
            where: search only the passages for which this is true.

        Returns:
            Hits scored by exact MaxSim.

        Raises:
            ValueOutOfBounds: k < 1.
            CheckpointError: the checkpoint of the index is absent or was changed.
        """
        check_k(k)
        asked = [query for query in dict.fromkeys(queries) if query.strip()]
        found: dict[str, list[Hit]] = {}
        if asked:
            encoder, vectors = self._parts()
            allowed = select_positions(self._store, ids, where)
            for start in range(0, len(asked), _QUERIES_AT_ONCE):
                batch = asked[start : start + _QUERIES_AT_ONCE]
                encoded = [encoder.encode_query(query) for query in batch]
                for query, vector, rough in zip(batch, encoded, vectors.scan(encoded, allowed), strict=True):
                    found[query] = self._hits(*vectors.best(vector, k, rough, allowed), k)
        return [list(found.get(query, [])) for query in queries]

    def _hits(self, positions: npt.NDArray[np.int64], scores: npt.NDArray[np.float64], k: int) -> list[Hit]:
        best = np.lexsort((positions, -scores))
        if len(best) > k:  # read only passages that can be among the hits; ties at the cut are settled by id
            best = best[scores[best] >= scores[best[k - 1]]]
        return rank_hits(((self._store[int(positions[i])], float(scores[i])) for i in best), k)

    def __copy__(self) -> ColBERTIndex:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ColBERTIndex:
        return self
