"""What the indexes of all engines share: how one is built in its folder, and the encoder of passages and queries."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import Self

from knowgap.errors import CheckpointError
from knowgap.retrieval.index.build import IndexBuild, start_build
from knowgap.retrieval.index.manifest import FIRST_SEGMENT, Manifest, Segment
from knowgap.retrieval.minilm import embedded_window
from knowgap.retrieval.passage import Hit, NeverCopied, Passage, check_k
from knowgap.retrieval.window import EMBEDDED, Window
from knowgap.storage.progress import Progress, no_progress


class Index(NeverCopied, ABC):
    """An index of passages in a folder. Usable from many threads.

    Attributes:
        path: the folder.
        manifest: the manifest of the index as this object sees it.
        engine: its key in `ENGINES`.
    """

    engine: ClassVar[str]

    def __init__(self, path: Path, manifest: Manifest, encoder: Any = None) -> None:
        self.path, self.manifest, self._given = path, manifest, encoder
        self._lock = threading.RLock()
        self._encoder: Any = None

    @classmethod
    def encoders(cls) -> Any:
        """The class of its encoder; None for an index without one."""
        return None

    @classmethod
    def open(cls, path: str | Path, *, encoder: Any = None) -> Self:
        """Open an index that `build` wrote. Its encoder is loaded at the first search.

        Args:
            path: its folder.
            encoder: the folder or hub name of its encoder, if that has moved; or the function that encoded it. None
                takes the encoder inside the index, or the one that was named at the build.

        Raises:
            IndexMissing, IndexForeign, IndexDamaged: see `Manifest.read`.
        """
        return cls(Path(path), Manifest.read(path, engine=cls.engine), encoder)

    @classmethod
    def window_of(cls, encoder: Any) -> Window | None:
        """How much of a passage an encoder reads, as named at `build`; None if it reads all, or is a function.

        Raises:
            CheckpointError: there is no such encoder.
        """
        kind = cls.encoders()
        if kind is None:
            return None
        return embedded_window() if encoder is None else kind.load(encoder).window

    @classmethod
    def _build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        settings: Mapping[str, Any],
        write: Callable[[IndexBuild, Manifest, Any, Progress], None],
        *,
        encoder: Any = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Build an index in its folder, or continue an interrupted build of the same passages with the same arguments.

        `settings` go into its manifest. `write` writes what the engine needs beside the passages, or, after
        `IndexBuild.resume`, the rest of it; it gets the loaded encoder.
        """
        report, kind, loaded, settings = progress or no_progress, cls.encoders(), None, dict(settings)
        with start_build(path, passages) as build:
            if kind is not None:
                loaded = kind.load(encoder) if encoder else kind.fitted(build, build.store, report)
                settings["dim"] = loaded.dim
            segment = Segment(FIRST_SEGMENT, len(build.store), build.corpus_digest)
            manifest = Manifest(cls.engine, (segment,), settings, {} if loaded is None else loaded.identity)
            if not build.is_done(manifest, overwrite=overwrite):
                write(build, manifest, loaded, report)
                build.finish(manifest)

    def search(self, queries: Sequence[str], k: int, *, ids: Collection[str] | None = None) -> list[list[Hit]]:
        """The `k` passages that match each query best.

        Args:
            queries: any strings; a blank one has no hits, and an encoder reads only the beginning of a long one.
            k: at most this many hits, from 1.
            ids: search only the passages with these ids.

        Raises:
            ValueOutOfBounds: k < 1.
            CheckpointError: the encoder of the index is absent or was changed.
        """
        check_k(k)
        distinct = [query for query in dict.fromkeys(queries) if query.strip()]
        hits = dict(zip(distinct, self._find(distinct, k, ids), strict=True)) if distinct else {}
        return [list(hits.get(query, [])) for query in queries]

    @abstractmethod
    def _find(self, queries: Sequence[str], k: int, ids: Collection[str] | None) -> Iterable[list[Hit]]:
        """The hits of each query; `queries` are distinct, and none is blank."""

    @property
    def digest(self) -> str | None:
        """A digest of what the index is made of and how it was changed."""
        return self.manifest.digest

    @property
    def encoder(self) -> Any:
        """The encoder of queries and passages, loaded and checked at the first call; None if the index has none.

        Raises:
            CheckpointError: it is absent, or not the one that encoded the passages.
        """
        with self._lock:
            if self._encoder is None and (kind := self.encoders()) is not None:
                self._encoder = self._load_encoder(kind)
            return self._encoder

    def _load_encoder(self, kind: Any) -> Any:
        recorded = self.manifest.checkpoint
        name = recorded["name"]
        if self._given is not None:
            encoder = kind.load(self._given)
        elif name == EMBEDDED:
            encoder = kind.inside(self.path)
        elif "probe" in recorded:
            raise CheckpointError(f"{self.path}: encoded by the function {name}; open it with that as encoder=…")
        else:
            encoder = kind.load(name, named_by=self.path)
        if not encoder.is_that_of(recorded):
            given = encoder.identity["name"]
            raise CheckpointError(f"{given}: not the encoder of {self.path} ({name}); give that one, or build again")
        return encoder
