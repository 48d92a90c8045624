"""From the words of a command line to the objects of the library."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from knowgap.errors import IndexMissing, UsageError

if TYPE_CHECKING:
    import dspy

    from knowgap.compile.data import Dataset
    from knowgap.programs.base import Program
    from knowgap.retrieval.passage import Passage, Retriever

__all__ = [
    "EMBEDDED_NOTICE",
    "OPENED",
    "build_index",
    "cache_folder",
    "home",
    "language_model",
    "make_program",
    "open_data",
    "open_retriever",
    "parse_settings",
]

_CHECKPOINTS = {"colbert": "checkpoint", "dense": "encoder", "qdrant": "checkpoint"}
EMBEDDED_NOTICE = (
    "no language model is configured: using the embedded extractive reader, which is good for trying things out, "
    "tests and sweeps, and is not a language model (--lm openai/…, ollama_chat/…, hf/… for a real one)"
)

OPENED = ExitStack()
"""Connections and locks of the indexes that a command has opened; closed when the command ends."""

R = TypeVar("R")


def home() -> Path:
    """The folder for what knowgap makes unasked: caches, and indexes of named data sets."""
    if folder := os.environ.get("KNOWGAP_HOME"):
        return Path(folder)
    import platformdirs

    return Path(platformdirs.user_cache_dir("knowgap"))


def cache_folder() -> Path:
    """Where answers, retrieved lists and scores are kept; those of another version are not used again."""
    from importlib.metadata import version

    return home() / "cache" / version("knowgap")


def language_model(name: str | None, api_base: str | None = None, *, check: bool = True) -> dspy.LM:
    """The language model called `name` (the embedded reader for None), reachable; DSPy caches its answers."""
    import dspy

    from knowgap.lms import check_reachable, make_lm, quiet_dspy

    quiet_dspy(cache_folder() / "lm")
    dspy.configure(disable_history=True)  # prompts of thousands of questions, which the traces tell more shortly
    lm = make_lm(name or "extractive", api_base=api_base)
    if check:
        check_reachable(lm)
    return lm


def open_data(source: str, *, corpus: Path | None = None, seed: int = 0, whole: str | None = None) -> Dataset:
    """The data set called `source`, or the one in that file or folder.

    Args:
        source: a name or a path.
        corpus: passages to use instead of those that come with the questions.
        seed: of the division into splits.
        whole: the split that takes all questions, undivided.
    """
    from knowgap.compile.data import load_dataset

    return load_dataset(source, corpus=corpus, seed=seed, split_as=whole)


def build_index(
    passages: Iterable[Passage],
    folder: Path,
    *,
    engine: str = "colbert",
    checkpoint: str | None = None,
    overwrite: bool = False,
    progress: Any = None,
    **server: Any,
) -> Retriever:
    """Build an index of `passages` in `folder`, or continue a build that was cut off.

    Args:
        passages: what to index; read once.
        folder: where.
        engine: one of `knowgap.retrieval.index.engines.ENGINES`.
        checkpoint: what encodes passages, for the engines that take one.
        overwrite: replace another index that stands there.
        progress: see `knowgap.cli.display.progress`.
        server: for qdrant: url, collection, shards, replicas; those that are None are left out.

    Raises:
        UnknownName: there is no such engine.
        UsageError: an option that the engine does not take.
    """
    from knowgap.retrieval.index.engines import engine_class

    options = {name: value for name, value in server.items() if value is not None}
    if options and engine != "qdrant":
        names = ", ".join("--qdrant-url" if name == "url" else f"--{name}" for name in options)
        raise UsageError(f"{names}: goes with --engine qdrant, not with {engine}")
    if checkpoint:
        if engine not in _CHECKPOINTS:
            raise UsageError(f"--checkpoint goes with --engine {', '.join(_CHECKPOINTS)}; {engine} takes none")
        options[_CHECKPOINTS[engine]] = checkpoint
    build = engine_class(engine).build
    return _held(build(passages, folder, overwrite=overwrite, progress=progress, **options))


def open_retriever(
    index: str | Path | None,
    data: Dataset | None = None,
    *,
    engine: str = "colbert",
    quality: str | None = None,
    progress: Any = None,
) -> Retriever:
    """The index in a folder or at a URL; without one, that of the data set's own corpus, built at first use.

    Args:
        index: the folder or the URL.
        data: whose corpus is indexed where no index is named.
        engine: of the index that is built.
        quality: how thoroughly a ColBERT index is searched; None takes the engine's default.
        progress: see `knowgap.cli.display.progress`.

    Raises:
        IndexMissing: no index is named, and the data set has no corpus.
        UsageError: a quality for an index that takes none.
    """
    from knowgap.retrieval import RemoteRetriever, open_index
    from knowgap.retrieval.index.engines import open_or_build

    if index is not None and str(index).startswith(("http://", "https://")):
        if quality is not None:
            raise UsageError(f"--quality {quality}: goes with `knowgap serve-index`, which opens the index of {index}")
        return _held(RemoteRetriever(str(index)))
    if index is not None:
        return _held(open_index(index, quality=quality))
    if data is None or not data.corpus:
        raise IndexMissing("no index: name one with --index FOLDER (`knowgap index` builds it)")
    folder = home() / "indexes" / data.index_name(engine)
    return _held(open_or_build(folder, data.corpus, engine, quality=quality, progress=progress))


def _held(retriever: R) -> R:
    """A retriever that is closed, if it can be, when the command ends."""
    OPENED.callback(getattr(retriever, "close", lambda: None))
    return retriever


def parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """Hyperparameters written as `name=value`.

    Raises:
        UsageError: for a piece without `=`.
    """
    values: dict[str, str] = {}
    for piece in settings:
        name, equals, value = piece.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {piece}: write it as name=value, for example --set top_k=3")
        values[name.strip()] = value.strip()
    return values


def make_program(
    name: str,
    retriever: Retriever | None,
    *,
    preset: str | None = None,
    settings: Sequence[str] = (),
    reranker: str | None = None,
    entailment: str | None = None,
) -> Program:
    """The program called `name`, with a preset's hyperparameters and then one's own."""
    from knowgap.programs import get_program

    cls = get_program(name)
    values: dict[str, Any] = dict(parse_settings(settings))
    parts: dict[str, Any] = {}
    if reranker is not None:
        if "reranker" not in cls.part_names:
            raise UsageError(f"--reranker {reranker}: the program {name} does not rerank")
        from knowgap.retrieval import make_reranker

        parts["reranker"] = make_reranker(reranker)
    if entailment is not None:
        if "entailment" not in cls.part_names:
            raise UsageError(f"--entailment {entailment}: the program {name} checks no entailment")
        from knowgap.retrieval import make_entailment

        parts["entailment"] = make_entailment(entailment)
    if preset:
        return cls.from_preset(preset, retriever, **parts, **values)
    return cls(retriever, **parts, **values)
