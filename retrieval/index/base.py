"""What the indexes of all engines share: how one is built in its folder, and the encoder of passages and queries."""

from __future__ import annotations

import shutil
import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar

from typing_extensions import Self

from knowgap.errors import CheckpointError, DataError, IndexFolderError, IndexForeign, KnowgapError, UsageError
from knowgap.retrieval.index.manifest import CHECKPOINT, FIRST_SEGMENT, MANIFEST, Manifest, Segment, building_folder
from knowgap.retrieval.index.passage_store import PassageStore
from knowgap.retrieval.minilm import EMBEDDED, Window, embedded_window
from knowgap.retrieval.passage import Passage, Searcher
from knowgap.storage.files import acquire_lock, naming, replace_folder
from knowgap.storage.manifest import seal
from knowgap.storage.progress import Progress, no_progress


class Index(Searcher):
    """An index of passages in a folder. Made by `build` or `open`; usable from many threads.

    Attributes:
        path: the folder.
        manifest: the manifest of the index as this object sees it.
        engine: its key in `ENGINES`.
        encoders: the class of its encoder, as `module:class`; empty for an index without one.
        options: the settings of a build with their defaults.
    """

    engine: ClassVar[str]
    encoders: ClassVar[str] = ""
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, path: Path, encoder: Any = None) -> None:
        self.path, self._given = path, encoder
        self.manifest = Manifest(self.engine, ())
        self._lock = threading.RLock()
        self._encoder: Any = None

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
        return cls(Path(path), encoder)

    @classmethod
    def window_of(cls, encoder: Any) -> Window | None:
        """How much of a passage an encoder reads, as named at `build`; None if it reads all, or is a function.

        Raises:
            CheckpointError: there is no such encoder.
        """
        if not cls.encoders:
            return None
        return embedded_window() if encoder is None else resolve_name(cls.encoders).load(encoder).window

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        path: str | Path,
        *,
        encoder: Any = None,
        overwrite: bool = False,
        progress: Progress | None = None,
        **options: Any,
    ) -> Self:
        """Write an index and open it, or continue an interrupted call with the same arguments.

        Args:
            passages: what to index; read once. Title and text are searched together.
            path: the folder; if it already holds the same index, that is opened.
            encoder: what encodes passages and queries, as the class says. On a machine with a CUDA GPU it runs there.
            overwrite: replace another index at the path.
            progress: called now and then.
            **options: settings that the class names.

        Raises:
            DataError: there are no passages, or two with the same id.
            CheckpointError: no such encoder, or a damaged one.
            ValueOutOfBounds: a setting has no such value.
            UsageError: another index is at the path, or the engine has no such setting or no encoder.
        """
        given = {*options} if encoder is None or cls.encoders else {*options, "encoder"}
        if unknown := sorted(given - cls.options.keys()):
            raise UsageError(f"an index of the engine {cls.engine} takes no {', '.join(unknown)}")
        report, loaded, settings = progress or no_progress, None, {**cls.options, **options}
        with lock_index(path) as target, _build_beside(target) as folder:
            segment = folder / FIRST_SEGMENT
            segment.mkdir(parents=True, exist_ok=True)
            store, corpus = PassageStore.build(passages, segment)
            if not len(store):
                raise DataError("there are no passages to index")
            if cls.encoders:
                kind = resolve_name(cls.encoders)
                loaded = kind.load(encoder) if encoder else kind.embedded(folder, store, corpus)
                settings["dim"] = loaded.dim
            segments = (Segment(FIRST_SEGMENT, len(store), corpus),)
            manifest = Manifest(cls.engine, segments, settings, {} if loaded is None else loaded.identity)
            if overwrite or not (target / MANIFEST).exists():
                resumed = _is_begun(folder, manifest)
                cls._write(Build(folder, store, manifest, loaded, resumed, overwrite, report))
                replace(manifest, files=seal(folder, leave_out=[MANIFEST])).write(folder)
                replace_folder(folder, target)
            elif Manifest.read(target).digest == manifest.digest:
                shutil.rmtree(folder)
            else:
                raise UsageError(
                    f"{target}: another index is already there; choose another path, or overwrite it (--overwrite)"
                )
        return cls.open(path, encoder=encoder)

    @classmethod
    @abstractmethod
    def _write(cls, build: Build) -> None:
        """Write what the engine needs beside the passages, or the rest of it; `Build.begin` comes before the first."""

    @property
    def digest(self) -> str | None:
        """A digest of what the index is made of and how it was changed; None for a folder of colbert-ai alone."""
        return self.manifest.digest if self.manifest.segments else None

    @property
    def encoder(self) -> Any:
        """The encoder of queries and passages, loaded and checked at the first call; None if the index has none.

        Raises:
            CheckpointError: it is absent, or not the one that encoded the passages.
        """
        with self._lock:
            if self._encoder is None and self.encoders:
                self._encoder = self._load_encoder()
            return self._encoder

    def _load_encoder(self) -> Any:
        kind, recorded = resolve_name(self.encoders), self.manifest.checkpoint
        name = recorded["name"]
        if self._given is not None:
            encoder = kind.load(self._given)
        elif name == EMBEDDED:
            encoder = kind.embedded(self.path)
        elif recorded["digest"] == name:
            raise CheckpointError(f"{self.path}: encoded by the function {name}; open it with that as encoder=…")
        else:
            encoder = kind.load(name, named_by=self.path)
        if (given := encoder.identity)["digest"] != recorded["digest"]:
            raise CheckpointError(f"{given['name']}: not the encoder {name} of {self.path}; build the index again")
        return encoder


@dataclass(frozen=True)
class Build:
    """A build in a folder: the manifest has no files yet, and `resumed` says whether a killed build has left some."""

    folder: Path
    store: PassageStore
    manifest: Manifest
    encoder: Any
    resumed: bool
    overwrite: bool
    report: Progress

    def begin(self) -> None:
        """Write the manifest, by which a later call knows the build again and continues it."""
        self.manifest.write(self.folder)


@contextmanager
def _build_beside(target: Path) -> Iterator[Path]:
    """Yield the folder in which an index is built; if the block is interrupted, the files so far are kept.

    They are removed if the block raises a `KnowgapError` before `Build.begin`.

    Raises:
        IndexForeign: something other than an index is at the path.
        OSError: a file cannot be written; the error names a file, and the same build goes on from there.
    """
    if target.is_file() or (target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).is_file()):
        raise IndexForeign(f"{target} holds other files, not an index; name a folder that does not exist")
    folder = building_folder(target)
    try:
        with naming(folder):
            yield folder
    except KnowgapError:
        if not (folder / MANIFEST).exists():
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _is_begun(folder: Path, manifest: Manifest) -> bool:
    """Whether a killed build of the same index has left its files; if not, those of another one are removed."""
    with suppress(IndexFolderError):  # there is none, or one of another version
        if replace(Manifest.parse(folder), files={}) == manifest:
            return True
    kept = {FIRST_SEGMENT, CHECKPOINT} if manifest.checkpoint.get("name") == EMBEDDED else {FIRST_SEGMENT}
    for old in (*folder.iterdir(), *(folder / FIRST_SEGMENT).iterdir()):
        if old.name not in kept and not old.name.startswith("passages."):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    return False


@contextmanager
def lock_index(path: str | Path) -> Iterator[Path]:
    """Keep other processes and threads from building an index in a folder during the block.

    An index may be built there in the block. The parent folder is created, and the absolute path is yielded.

    Raises:
        IndexFolderError: another process is building the same index.
        OSError: the lock cannot be made.
    """
    target = Path(path).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    taken = IndexFolderError(f"{target}: another process is building this index; wait for it to finish")
    with acquire_lock(target, taken=taken, reentrant=True):
        yield target
