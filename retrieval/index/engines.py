"""The engines of indexes, and the opening of an index of any engine."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from knowgap.errors import IndexForeign, UnknownName, UsageError, shorten
from knowgap.plugins import make
from knowgap.retrieval.hub import is_allowed
from knowgap.retrieval.index.manifest import Manifest
from knowgap.retrieval.index.search_settings import Quality
from knowgap.retrieval.outside import open_outside
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.retrieval.remote import RemoteRetriever
from knowgap.retrieval.window import Window

ENGINES = {
    "bm25": "knowgap.retrieval.bm25:BM25Index",
    "colbert": "knowgap.retrieval.colbert.index:ColBERTIndex",
    "dense": "knowgap.retrieval.dense:DenseIndex",
    "hybrid": "knowgap.retrieval.hybrid:HybridIndex",
    "plaid": "knowgap.retrieval.plaid:PlaidIndex",
    "qdrant": "knowgap.retrieval.qdrant:QdrantIndex",
}
"""Engine name → `module:class`; the class has `open(path)`."""


def open_index(
    path: str | Path,
    *,
    engine: str | None = None,
    quality: Quality | None = None,
    allow_hub: Collection[str] = (),
    **options: Any,
) -> Retriever:
    """Open an index of any engine.

    Args:
        path: its folder.
        engine: the engine that it must have; None accepts any.
        quality: how thoroughly a ColBERT index is searched: `fast`, `balanced`, `exact` or `SearchSettings`. None
            takes the engine's default.
        allow_hub: names of models on the Hugging Face hub that may be fetched if the index names them; without that,
            its encoder has to be a folder, or to have been fetched before.
        options: passed to the `open` of its engine.

    Raises:
        UnknownName: there is no quality of that name.
        UsageError: the index has another engine, or a quality is given and its engine takes none.
        IndexMissing: nothing is at that path.
        IndexForeign: something else is there, or an index of an engine or format that this version does not know.
        IndexDamaged: a file of the index is missing or damaged.

    >>> import knowgap
    >>> towns = [knowgap.Passage("tarn", "Tarn", "A town on the Lome.")]
    >>> index = knowgap.build_index(towns, "more-towns", engine="bm25")
    >>> len(knowgap.open_index("more-towns"))
    1
    """
    manifest = Manifest.read(path)
    if manifest.engine not in ENGINES:
        raise IndexForeign(
            f"{path}: an index of the engine {manifest.engine!r}; this knowgap opens {', '.join(sorted(ENGINES))}"
        )
    if engine not in (None, manifest.engine):
        raise UsageError(f"{path}: an index of the engine {manifest.engine}, not {engine}; leave the engine out")
    check_quality(path, [manifest.engine], quality)
    if manifest.engine == "hybrid":
        options["allow_hub"] = allow_hub
    elif is_allowed(name := manifest.checkpoint.get("name", ""), allow_hub):
        options = {"encoder" if manifest.engine == "dense" else "checkpoint": name, **options}
    return engine_class(manifest.engine).open(path, **options, **({} if quality is None else {"quality": quality}))


def as_retriever(retriever: Any, *, quality: Quality | None = None, allow_hub: Collection[str] = ()) -> Any:
    """Open the index in a folder or at an http(s) URL; a retriever, or None, is returned as it is.

    A string may also name a plugin or an index of another tool; see `outside_retriever`. `quality` and `allow_hub` are
    those of `open_index`.

    Raises:
        IndexFolderError: the index in the folder cannot be opened.
        UsageError: it is not a retriever, or a quality is given and it takes none.
    """
    is_url = isinstance(retriever, str) and retriever.startswith(("http://", "https://"))
    if isinstance(retriever, (str, Path)) and not is_url:
        outside = outside_retriever(retriever)
        if outside is None:
            return open_index(retriever, quality=quality, allow_hub=allow_hub)
        retriever = outside
    if quality is not None:
        raise UsageError(f"quality {str(quality)!r} applies only to an index folder: open_index(folder, quality=…)")
    if is_url:
        return RemoteRetriever(str(retriever))
    if retriever is None or isinstance(retriever, Retriever):
        return retriever
    raise UsageError(
        f"retriever must be an index, its folder or the URL of its server, not {type(retriever).__name__}: "
        f"{shorten(repr(retriever), 60)}"
    )


def outside_retriever(name: str | Path) -> Retriever | None:
    """The plugin or the index of another tool with this name; None if there is none.

    The name is that of an index of another tool, see `open_outside`; `module:Name` of a retriever, or of a callable
    that makes one; `module:Name:TEXT`, which calls it with a text; or the name of an entry point of an installed
    package in the group `knowgap.retrievers`.

    Raises:
        UsageError: it cannot be imported or made, or is no retriever.
    """
    return open_outside(name) or make("retriever", name, Retriever)


def open_or_build(
    path: str | Path, passages: Iterable[Passage], engine: str, *, quality: Quality | None = None, progress: Any = None
) -> Retriever:
    """Open the index in a folder; if there is none, build it from the passages first.

    The errors are those of `open_index` and of the engine's `build`.
    """
    if not Path(path).exists():
        check_quality(path, [engine], quality)
        built = engine_class(engine).build(passages, path, progress=progress)
        if quality is None:
            return built
    return open_index(path, engine=engine, quality=quality)


def engine_class(engine: str) -> Any:
    """The class of an engine, with `build` and `open`.

    Raises:
        UnknownName: there is no such engine.
    """
    if engine not in ENGINES:
        raise UnknownName.among("engine", engine, ENGINES)
    module, name = ENGINES[engine].split(":")
    return getattr(importlib.import_module(module), name)


def engine_window(engine: str, encoder: Any = None) -> Window | None:
    """The window of the encoder of an engine's passages; `encoder` is as in `build`, where None is the embedded one.

    The window is None for an engine without an encoder, and for a function, whose window is not known.

    Raises:
        CheckpointError: there is no such encoder.
    """
    return None if callable(encoder) else engine_class(engine).window_of(encoder)


def takes_quality(engine: str) -> bool:
    """Whether `open` of an engine takes a quality."""
    return getattr(engine_class(engine), "takes_quality", False)


def check_quality(path: str | Path, engines: Iterable[str], quality: Quality | None) -> None:
    """Raise `UsageError` for a quality that none of an index's engines takes."""
    if quality is not None and not any(map(takes_quality, engines)):
        raise UsageError(
            f"{path}: quality {str(quality)!r} applies only to a ColBERT index; this index is searched in one way, so "
            "leave the quality out"
        )
