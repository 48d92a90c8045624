"""A ColBERT index: late interaction over the token vectors of passages (Khattab and Zaharia 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import Self

from knowgap.retrieval.colbert.checkpoint import (
    checkpoint_window,
    embedded_width,
    fitted_to,
    load_recorded_encoder,
    prepare_checkpoint,
)
from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.device import choose_device
from knowgap.retrieval.index.build import start_build
from knowgap.retrieval.index.encoding import EncodingState
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.vector_index import VectorIndex, write_vectors
from knowgap.retrieval.passage import Passage
from knowgap.storage.progress import Progress, no_progress


class ColBERTIndex(VectorIndex):
    """An index of passages by the vectors of their tokens. Made by `build` or `open`; usable from many threads."""

    engine: ClassVar[str] = "colbert"
    window_of = staticmethod(checkpoint_window)

    def __init__(
        self, path: Path, manifest: Manifest, checkpoint: str | Path | None = None, device: str | None = None
    ) -> None:
        super().__init__(path, manifest, device)
        self._checkpoint = checkpoint

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        *,
        checkpoint: str | Path | None = None,
        dim: int | None = None,
        device: str | None = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Encode passages and write an index, or continue an interrupted call with the same arguments.

        Args:
            passages: what to index; read once. Title and text are encoded together.
            path: the folder; if it already holds the same index, that is opened.
            checkpoint: a ColBERT checkpoint by folder or hub name (`colbert-ir/colbertv2.0`). None makes one from the
                embedded MiniLM encoder and the corpus, without the network, and saves it inside the index.
            dim: width of the token vectors, for the embedded checkpoint: a multiple of 16 up to 384. None takes 384 for
                up to 20,000 passages, which retrieves best, and 128 for more.
            device: where to encode; None takes a CUDA GPU if there is one.
            overwrite: replace another index at the path.
            progress: called after each chunk of passages.

        Raises:
            DataError: there are no passages, or two with the same id.
            CheckpointError: no such checkpoint, or a damaged one.
            ValueOutOfBounds: dim or device is not allowed.
            UsageError: another index is at the path.
        """
        return cls._build(passages, path, checkpoint, dim, device, {}, overwrite=overwrite, progress=progress)

    @classmethod
    def _build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        checkpoint: str | Path | None,
        dim: int | None,
        device: str | None,
        words: Mapping[str, Any],
        *,
        overwrite: bool,
        progress: Progress | None,
    ) -> Self:
        """Build as `build` does; with the settings of BM25 in `words`, words are counted too."""
        device, report = choose_device(device), progress or no_progress
        with start_build(path, overwrite=overwrite) as build:
            store = build.store(passages)
            if checkpoint is None:  # whether the index exists can be checked without fitting it
                settings = {"dim": embedded_width(dim, len(store)), **words}
                manifest = build.manifest(cls.engine, store, settings, {"fitted": fitted_to(build.corpus_digest)})
                if build.already_built(manifest):
                    build.finish(manifest)
                    return cls.open(path, device=device)
            state = EncodingState.resume(build, {"checkpoint": str(checkpoint), "dim": dim})
            folder, recorded = prepare_checkpoint(checkpoint, dim, store, state, report)
            encoder = TokenEncoder(folder, device=device)
            manifest = build.manifest(cls.engine, store, {"dim": encoder.dim, **words}, recorded)
            write_vectors(build, store, encoder, state, manifest, report)
        return cls.open(path, checkpoint=checkpoint, device=device)

    @classmethod
    def open(cls, path: str | Path, *, checkpoint: str | Path | None = None, device: str | None = None) -> Self:
        """Open an index that `build` wrote. The encoder is loaded at the first search.

        Args:
            path: its folder.
            checkpoint: the folder or hub name of its checkpoint; None takes the one in the index, or that of the build.
            device: where to encode; None takes a CUDA GPU if there is one.

        Raises:
            IndexMissing, IndexForeign, IndexDamaged: see `Manifest.read`.
        """
        return cls(Path(path), Manifest.read(path, engine=cls.engine), checkpoint, device)

    def _load_encoder(self) -> TokenEncoder:
        return load_recorded_encoder(self.path, self.manifest, self._checkpoint, self._device)
