"""Make the objects of the library from the options of a command: indexes, language models and programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from knowgap.cli import options as o
from knowgap.cli.display import progress, remark
from knowgap.errors import IndexMissing, UnknownName, UsageError
from knowgap.retrieval.index import NEW_INDEX
from knowgap.version import __version__

if TYPE_CHECKING:
    import dspy

    from knowgap.compiling.data import Dataset
    from knowgap.programs.base import Program
    from knowgap.retrieval.passage import Retriever

SAMPLE = "sample"
"""The data set, and the index of its passages, that is taken if none is named."""
_BASE = "rag"  # the program that the others of `all` are compared with
_EMBEDDED_NOTICE = "without --lm, the embedded reader answers: it copies from passages, and is no language model"
_SAMPLE_NOTICE = "without --index or --data, this is the bundled sample, a fictional encyclopedia"


def home() -> Path:
    """The folder of caches, and of indexes for which no folder is named; other users cannot read it."""
    import platformdirs

    folder = Path(os.environ.get("KNOWGAP_HOME") or platformdirs.user_cache_dir("knowgap"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def cache_folder() -> Path:
    """The folder of cached answers, retrieved lists and scores. Every version of knowgap has its own."""
    return home() / "cache" / __version__


def load_lm(options: o.ModelOptions, *, generator: Any = None) -> dspy.LM:
    """Load the language model of the options and check that it answers; the default is the embedded reader.

    A `generator` answers in place of a language model.
    """
    import dspy

    from knowgap.lms import check_reachable, make_lm, quiet_dspy
    from knowgap.lms.providers import parse_options

    quiet_dspy(cache_folder() / "lm")
    dspy.configure(disable_history=True)  # it would keep every prompt in memory; traces have the same content
    if generator is not None:
        return generator
    name, api_base = options.lm or "extractive", options.api_base
    if name.startswith(("extractive", "hf/")) and api_base == os.environ.get("KNOWGAP_API_BASE"):
        api_base = None  # that of another model
    if options.lm is None:
        remark(_EMBEDDED_NOTICE)
    lm = make_lm(name, api_base=api_base, **parse_options(named_values(options.lm_option, "--lm-option")))
    check_reachable(lm)
    return lm


def load_data(options: o.DataOptions, split_as: str | None = None) -> Dataset:
    """Load the data set of the options, by default the sample; `split_as` names the one split that it forms."""
    from knowgap.compiling.data import load_dataset

    if options.data is None:
        remark(_SAMPLE_NOTICE)
    return load_dataset(options.data or SAMPLE, seed=options.seed, split_as=split_as)


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
        options: what --index names; that of a folder of documents is kept, and made or updated first. Without it, the
            index of the data set's own passages, or the sample's, is opened, or built at first use.
        dataset: the data set, if there is one.

    Raises:
        UsageError: --index is blank.
    """
    from knowgap.retrieval.index.manifest import MANIFEST
    from knowgap.retrieval.indexes import as_retriever

    place, engine = options.folder, os.environ.get("KNOWGAP_ENGINE")
    if place is not None:
        check_place(place, "--index")
    if place is None or (place == SAMPLE and not Path(place).exists()):
        if place is None and dataset is None:
            remark(_SAMPLE_NOTICE)
        retriever: Any = _open_own_index(dataset if place is None else None, engine or NEW_INDEX)
    elif Path(place).is_dir() and not (Path(place) / MANIFEST).exists():
        from knowgap.compiling.data.indexing import open_documents

        with progress(f"indexing {place}") as report:
            retriever = open_documents(place, home() / "folders", engine, progress=report)
    else:
        retriever = as_retriever(place)
    with closing(retriever):
        yield retriever


def check_place(place: str, option: str) -> None:
    """Refuse a blank name, which would mean the current folder, such as a variable of the shell that is not set.

    Raises:
        UsageError: the name is blank.
    """
    if not place.strip():
        raise UsageError(f"{option} is blank: name a folder, or leave it out")


def _open_own_index(dataset: Dataset | None, engine: str) -> Any:
    """Open the index of a data set's own passages, or the sample's; build it if there is none."""
    from knowgap.compiling.data import load_dataset
    from knowgap.retrieval.indexes import open_or_build

    dataset = dataset or load_dataset(SAMPLE)
    if not dataset.corpus:
        raise IndexMissing(
            "no index: name one with --index FOLDER; `knowgap index --corpus FILE --index FOLDER` builds it"
        )
    with progress(f"indexing {dataset.name}") as report:
        return open_or_build(home() / "indexes" / dataset.index_name(engine), dataset.corpus, engine, progress=report)


def named_values(pieces: Sequence[str] | None, option: str) -> dict[str, str]:
    """Parse the values of an option, which are written as NAME=VALUE."""
    values: dict[str, str] = {}
    for piece in pieces or ():
        name, _, value = piece.partition("=")
        if not name.strip() or not value.strip():
            raise UsageError(f"{option} {piece}: write it as NAME=VALUE")
        values[name.strip()] = value.strip()
    return values


def load_parts(parts: Mapping[str, str], known: Sequence[str] = ()) -> dict[str, Any]:
    """Load the models of --part, given as WHERE by NAME, as arguments of a program's constructor.

    Raises:
        UnknownName: the name is not among the `known` ones, or is none.
        CheckpointError: a folder holds no such model.
    """
    from knowgap.lms.providers import TRAINED, load_trained
    from knowgap.programs.passages import entailment_of
    from knowgap.retrieval import make_reranker

    makers = {"reranker": make_reranker, "entailment": entailment_of}
    for name in parts:
        if name not in (names := known or [*makers, *TRAINED]):
            raise UnknownName.among("part", name, names)
    return {name: makers[name](w) if name in makers else load_trained(name, w) for name, w in parts.items()}


class CheckedProgram(NamedTuple):
    """A program whose names and settings are known to be right.

    Attributes:
        retrieves: whether it searches an index.
        make: makes it from the index and the language model that it will be asked with; an artifact that was compiled
            with others warns.
        generator: the model that writes everything in place of the language model, if the program has one.
    """

    retrieves: bool
    make: Callable[[Retriever | None, dspy.LM | None], Program]
    generator: Any = None


def check_programs(options: o.ProgramOptions, *, searching: bool = False) -> dict[str, CheckedProgram]:
    """The programs of --program by label, which is empty for a single one; each gets the parts that it takes.

    `all` with `searching` leaves out the programs that search no index, which only serve for comparison.

    Raises:
        UnknownName: there is no such program, preset, part or hyperparameter.
        UsageError: options contradict each other, or a part would have no effect.
        ArtifactError: an artifact cannot be loaded.
    """
    from knowgap.programs import PROGRAMS, get_program

    text, settings = options.program or o.DEFAULT_PROGRAM, named_values(options.settings, "--set")
    names = [*filter(None, map(str.strip, text.split(",")))]
    if names == ["all"]:
        names = [name for name in PROGRAMS if not searching or get_program(name).needs_retriever]
        names.sort(key=lambda name: name != _BASE)
    if not names or "all" in names:
        raise UsageError(f"--program {text}: name programs or artifact folders, separated by commas, or all alone")
    if len(names) > 1 and settings:
        raise UsageError(f"--set {' '.join(settings)} applies to one program, but --program names several")
    found = {name: program_of(name) for name in names}
    parts, checked, taken = named_values(options.parts, "--part"), dict[str, CheckedProgram](), set[str]()
    models = load_parts(parts)
    for name, (program_class, artifact) in found.items():
        own = {part: models[part] for part in {*program_class.part_names, *program_class.sub_models} & {*models}}
        taken |= {*own}
        make = partial(_make, program_class, artifact, settings, own)
        made = make(None, None)
        unseen = is_module(program_class) and getattr(options, "folder", None)  # it may search in ways of its own
        checked[name] = CheckedProgram(bool(made.needs_retriever or unseen), make, made.parts().get("generator"))
    for name in parts.keys() - taken:
        raise UsageError(f"--part {name}={parts[name]}: {text} has no {name}")
    return checked if len(names) > 1 else {"": checked[names[0]]}


def _make(
    program_class: Any,
    artifact: Path | None,
    settings: Mapping[str, Any],
    models: Mapping[str, Any],
    retriever: Retriever | None,
    lm: dspy.LM | None,
) -> Program:
    """Make a program; the settings take precedence over those of the artifact or preset."""
    import dspy

    with dspy.context(lm=lm) if lm is not None else nullcontext():
        if artifact is not None:
            from knowgap.compiling import load

            loaded = load(artifact, retriever=retriever, expect=program_class, **models)
            return loaded.configure(**settings)
        if "preset" in settings:
            given = {name: value for name, value in settings.items() if name != "preset"}
            return program_class.from_preset(settings["preset"], retriever, **models, **given)
        return program_class(retriever, **models, **settings)


def program_of(program: str | None) -> tuple[Any, Path | None]:
    """The class that --program names, and the folder of a compiled program, or None.

    `module:Name:FOLDER` is a compiled program of a plugin.
    """
    from knowgap.plugins import split_argument
    from knowgap.programs import PROGRAMS, get_program

    name = program or o.DEFAULT_PROGRAM
    is_folder = name not in PROGRAMS and Path(name).is_dir()
    reference, folder = (None, name) if is_folder else split_argument(name)
    if folder is None:
        return get_program(name), None
    from knowgap.compiling.artifact import artifact_class

    return artifact_class(folder, reference), Path(folder)


def is_module(program_class: Any) -> bool:
    """Whether programs of a class wrap a `dspy.Module`."""
    return hasattr(program_class, "reference")
