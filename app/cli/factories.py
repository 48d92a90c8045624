"""Make the objects of the library from the options of a command: indexes, language models and programs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowgap.cli import options as o
from knowgap.cli.display import progress, remark
from knowgap.errors import IndexMissing, UsageError

if TYPE_CHECKING:
    import dspy

    from knowgap.compile.data import Dataset
    from knowgap.programs.base import Program
    from knowgap.retrieval.passage import Retriever

__all__ = [
    "cache_folder",
    "closing",
    "load_data",
    "load_lm",
    "load_program",
    "load_scorers",
    "named_values",
    "open_index",
]

_EMBEDDED_NOTICE = (
    "no language model is configured: using the embedded extractive reader, which is good for trying things out, "
    "tests and sweeps, and is not a language model (--lm openai/…, ollama_chat/…, hf/… for a real one)"
)


def _home() -> Path:
    """The folder of caches, and of indexes that are built without a folder being named."""
    if folder := os.environ.get("KNOWGAP_HOME"):
        return Path(folder)
    import platformdirs

    return Path(platformdirs.user_cache_dir("knowgap"))


def cache_folder() -> Path:
    """The folder of cached answers, retrieved lists and scores. Every version of knowgap has its own."""
    from importlib.metadata import version

    return _home() / "cache" / version("knowgap")


def load_lm(name: str | None, api_base: str | None = None) -> dspy.LM:
    """Load a language model and check that it answers; DSPy caches its answers on disk.

    Args:
        name: the value of --lm; None takes the embedded reader, and says so.
        api_base: the value of --api-base.

    Raises:
        UsageError: there is no such model.
        LanguageModelError: it does not answer.
    """
    import dspy

    from knowgap.lms import check_reachable, make_lm, quiet_dspy

    if name is None:
        remark(_EMBEDDED_NOTICE)
    quiet_dspy(cache_folder() / "lm")
    dspy.configure(disable_history=True)  # it would keep every prompt in memory; the traces tell the same
    lm = make_lm(name or "extractive", api_base=api_base)
    check_reachable(lm)
    return lm


def load_data(source: o.IndexOptions, data: o.DataOptions, seed: int) -> Dataset:
    """Load the data set of the options; `seed` divides it into splits, unless all questions go into one.

    Raises:
        DataError: it cannot be read.
    """
    from knowgap.compile.data import load_dataset

    whole = isinstance(data, o.QuestionOptions) and data.whole
    return load_dataset(source.data, corpus=data.corpus, seed=seed, split_as=data.split if whole else None)


@contextmanager
def closing(retriever: Any) -> Iterator[Any]:
    """Close a retriever at the end of the block, if it has connections or locks to close."""
    try:
        yield retriever
    finally:
        getattr(retriever, "close", lambda: None)()


@contextmanager
def open_index(options: o.IndexOptions, dataset: Dataset | None = None) -> Iterator[Retriever]:
    """Open the index of the options, and close it at the end of the block.

    Args:
        options: a folder or URL; or an engine, whose index of the data set's passages is built at first use.
        dataset: the data set, if it is loaded already.

    Raises:
        IndexMissing: no index is named, and the data set has no passages.
        UsageError: a quality for an index that takes none.
    """
    from knowgap import retrieval

    place, quality = options.folder, options.quality
    if place is None:
        place = _index_of_data(options, dataset)
    if str(place).startswith(("http://", "https://")):
        if quality is not None:
            raise UsageError(f"--quality {quality}: goes with `knowgap serve-index`, which opens the index of {place}")
        retriever = retrieval.RemoteRetriever(str(place))
    else:
        retriever = retrieval.open_index(place, quality=quality)
    with closing(retriever):
        yield retriever


def _index_of_data(options: o.IndexOptions, dataset: Dataset | None) -> Path:
    """The index of a data set's own passages, built if it is not there."""
    from knowgap.compile.data import load_dataset
    from knowgap.retrieval.index.engines import engine_class

    dataset = dataset or load_dataset(options.data)
    if not dataset.corpus:
        raise IndexMissing("no index: name one with --index FOLDER (`knowgap index` builds it)")
    folder = _home() / "indexes" / dataset.index_name(options.engine)
    if not folder.exists():
        with progress(f"indexing {dataset.name}") as report:
            built = engine_class(options.engine).build(dataset.corpus, folder, progress=report)
            with closing(built):
                pass
    return folder


def named_values(pieces: Sequence[str] | None, option: str) -> dict[str, str]:
    """Parse the values of an option that are written as NAME=VALUE.

    Raises:
        UsageError: one of them is not.
    """
    values: dict[str, str] = {}
    for piece in pieces or ():
        name, _, value = piece.partition("=")
        if not name.strip() or not value.strip():
            raise UsageError(f"{option} {piece}: write it as NAME=VALUE")
        values[name.strip()] = value.strip()
    return values


def load_scorers(options: o.ScorerOptions) -> dict[str, Any]:
    """Load the reranker and the entailment model of the options, as arguments of a program's constructor."""
    from knowgap.retrieval import make_entailment, make_reranker

    scorers: dict[str, Any] = {}
    if options.reranker is not None:
        scorers["reranker"] = make_reranker(options.reranker)
    if options.entailment is not None:
        scorers["entailment"] = make_entailment(options.entailment)
    return scorers


def load_program(options: o.ProgramOptions, retriever: Retriever, scorers: o.ScorerOptions | None = None) -> Program:
    """Load a compiled program, or make a named one.

    Args:
        options: the program; its settings go over those of the artifact or preset.
        retriever: the index that it searches.
        scorers: its reranker and entailment model; None leaves the program its own.

    Raises:
        ArtifactError: the artifact cannot be loaded.
        UnknownName: there is no such program or preset.
        UsageError: a setting that it does not have, a scorer that it does not ask, or a preset for an artifact.
    """
    from knowgap.compile import load_artifact, read_config
    from knowgap.programs import get_program

    settings = named_values(options.settings, "--set")
    if options.artifact is not None and options.preset is not None:
        raise UsageError(f"--preset {options.preset}: goes with --program; {options.artifact} has its own settings")
    name = options.program if options.artifact is None else read_config(options.artifact)["program"]
    program_class = get_program(name)
    scorers = scorers or o.ScorerOptions()
    for part, value in vars(scorers).items():
        if value is not None and part not in program_class.part_names:
            raise UsageError(f"--{part} {value}: the program {name} has no {part}")
    parts = load_scorers(scorers)
    if options.artifact is None:
        preset = {} if options.preset is None else program_class.preset(options.preset)
        return program_class(retriever, **parts, **preset | settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = load_artifact(options.artifact, retriever=retriever, **parts)
    for warning in caught:
        remark(f"warning: {warning.message}")
    return program.configure(**settings)
