"""Make the objects of the library from the options of a command: indexes, language models and programs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from knowgap.cli import options as o
from knowgap.cli.display import progress, remark
from knowgap.errors import IndexMissing, UnknownName, UsageError, check_address, is_address
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
_LM_OPTIONS, _API_BASE = "KNOWGAP_LM_OPTIONS", "KNOWGAP_API_BASE"
_EMBEDDED_NOTICE = (
    "no language model is configured: using the embedded extractive reader, which is good for trying things out, "
    "tests and sweeps, and is not a language model (--lm openai/…, ollama_chat/…, hf/… for a real one)"
)
_SAMPLE_NOTICE = (
    "no data is named: using the bundled sample, a fictional encyclopedia with questions on it "
    "(--index and --data for your own)"
)


def home() -> Path:
    """The folder of caches, and of indexes for which no folder is named; other users cannot read it."""
    import platformdirs

    folder = Path(os.environ.get("KNOWGAP_HOME") or platformdirs.user_cache_dir("knowgap"))
    if not folder.exists():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{folder}: the folder for caches cannot be created ({error.strerror or error}); set KNOWGAP_HOME to a "
                "folder that can be written to"
            ) from error
    return folder


def cache_folder() -> Path:
    """The folder of cached answers, retrieved lists and scores. Every version of knowgap has its own."""
    return home() / "cache" / __version__


def load_lm(
    options: o.ModelOptions, artifact: Path | None = None, *, asks: bool = True, generator: Any = None
) -> dspy.LM:
    """Load the language model of the options and check that it answers; the default is the embedded reader.

    The model's options on the command line take precedence over those in the environment, and these over those of an
    artifact that was compiled with the same model.

    Args:
        options: the model's name and options.
        artifact: a compiled program.
        asks: False if the model will not be asked, so that it need not answer.
        generator: answers in place of a language model.
    """
    import dspy

    from knowgap.lms import check_reachable, make_lm, quiet_dspy
    from knowgap.lms.providers import parse_options

    name = options.lm
    if generator is not None:
        if name is not None:
            remark(f"the generator {generator.model} answers; the language model {name} is not used")
        quiet_dspy()
        return generator
    given = parse_options(named_values(options.lm_option, "--lm-option"))
    if name not in (None, "extractive"):
        written = os.environ.get(_LM_OPTIONS, "").split()
        given = {**parse_options(named_values(written, _LM_OPTIONS)), **given}
        given = {**(_saved_options(artifact, name, given) if artifact is not None else {}), **given}
    api_base = _address_to_ask(name, options.api_base)
    if name is None and asks:
        remark(_EMBEDDED_NOTICE)
    quiet_dspy(cache_folder() / "lm")
    dspy.configure(disable_history=True)  # it would keep every prompt in memory; traces have the same content
    lm = make_lm(name or "extractive", api_base=api_base, **given)
    if asks:
        check_reachable(lm)
    return lm


def _address_to_ask(name: str | None, api_base: str | None) -> str | None:
    """The address of the language model's server; None, with a remark, if the environment's is for another model.

    Raises:
        UsageError: --api-base is given without a model that a server answers for.
    """
    if not api_base or (name not in (None, "extractive") and not str(name).startswith("hf/")):
        return api_base
    if api_base == os.environ.get(_API_BASE):
        answers = "no language model is named" if name is None else f"{name} answers"
        remark(f"{_API_BASE} is set but not used, since {answers}; name the model of that server with --lm openai/NAME")
        return None
    if name is None:
        raise UsageError(f"--api-base {api_base}: name the model of that server as well, with --lm openai/NAME")
    return api_base  # `make_lm` refuses it


def _saved_options(artifact: Path, name: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The saved options of an artifact's language model, which a remark lists; empty if `name` is another model."""
    from knowgap.compiling import read_config
    from knowgap.lms.providers import check_option

    config = read_config(artifact)
    saved = config.get("lm_settings")
    if config.get("lm") != name or not isinstance(saved, dict):
        return {}
    options = {key: check_option(key, value) for key, value in saved.items() if key != "endpoint" and key not in given}
    if options:
        remark(f"options of {name} in {artifact}: {' '.join(f'{key}={value}' for key, value in options.items())}")
    return options


def load_data(options: o.DataOptions, split_as: str | None = None) -> Dataset:
    """Load the data set of the options, by default the sample; `split_as` names the one split that it forms."""
    from knowgap.compiling.data import load_dataset

    if options.data is None:
        remark(_SAMPLE_NOTICE)
    return load_dataset(options.data or SAMPLE, corpus=options.corpus, seed=options.seed, split_as=split_as)


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
        options: what --index names. Without it, the index of the data set's own passages, or the sample's, is opened,
            or built at first use. A server is sent the key in KNOWGAP_INDEX_KEY, never the one that `knowgap serve`
            asks for.
        dataset: the data set, if there is one.
    """
    place = options.folder
    if place is None or (place == SAMPLE and not Path(place).exists()):
        if place is None and dataset is None:
            remark(_SAMPLE_NOTICE)
        retriever: Any = _open_own_index(options.engine, dataset)
    elif is_address(place):
        from knowgap.retrieval import RemoteRetriever

        check_address(place, "--index")
        retriever = RemoteRetriever(place, key=os.environ.get("KNOWGAP_INDEX_KEY") or None)
    else:
        from knowgap.retrieval import open_index as open_folder
        from knowgap.retrieval.index.engines import outside_retriever
        from knowgap.retrieval.index.manifest import MANIFEST

        retriever = outside_retriever(place)
        if retriever is None and Path(place).is_dir() and not (Path(place) / MANIFEST).exists():
            from knowgap.compiling.data.indexing import open_documents

            with progress(f"indexing {place}") as report:
                retriever = open_documents(place, home() / "folders", options.engine, progress=report)
        retriever = retriever or open_folder(place, engine=options.engine, allow_hub=allowed_hub())
    with closing(retriever):
        yield retriever


def _open_own_index(engine: str | None, dataset: Dataset | None) -> Any:
    """Open the index of a data set's own passages, or the sample's; build it if there is none."""
    from knowgap.compiling.data import load_dataset
    from knowgap.retrieval.index.engines import open_or_build

    dataset = dataset or load_dataset(SAMPLE)
    if not dataset.corpus:
        raise IndexMissing(
            "no index: name one with --index FOLDER; `knowgap index --corpus FILE --index FOLDER` builds it"
        )
    engine = engine or os.environ.get("KNOWGAP_ENGINE") or NEW_INDEX
    folder = home() / "indexes" / dataset.index_name(engine)
    with progress(f"indexing {dataset.name}") as report:
        return open_or_build(folder, dataset.corpus, engine, progress=report)


def allowed_hub() -> list[str]:
    """The models on the Hugging Face hub that may be fetched where an index or a compiled program names them."""
    return os.environ.get("KNOWGAP_ALLOW_HUB", "").split()


def named_values(pieces: Sequence[str] | None, option: str) -> dict[str, str]:
    """Parse the values of an option, which are written as NAME=VALUE."""
    values: dict[str, str] = {}
    for piece in pieces or ():
        name, _, value = piece.partition("=")
        if not name.strip() or not value.strip():
            raise UsageError(f"{option} {piece}: write it as NAME=VALUE")
        values[name.strip()] = value.strip()
    return values


def load_parts(pieces: Sequence[str] | None, known: Sequence[str] | None = None) -> dict[str, Any]:
    """Load the models of --part, as arguments of a program's constructor.

    Args:
        pieces: the values of the option, as NAME=WHERE.
        known: the names that are allowed; None allows all.

    Raises:
        UnknownName: there is no such part.
        CheckpointError: a folder holds no such model.
    """
    from knowgap.lms.trained import TRAINED, load_trained
    from knowgap.programs.statements import entailment_of
    from knowgap.retrieval import make_reranker

    makers = {"reranker": make_reranker, "entailment": entailment_of}
    parts = named_values(pieces, "--part")
    for name in parts:
        if name not in (names := [*makers, *TRAINED] if known is None else known):
            raise UnknownName.among("part", name, names)
    return {name: makers[name](w) if name in makers else load_trained(name, w) for name, w in parts.items()}


def named_programs(options: o.ProgramOptions, *, searching: bool = False) -> dict[str, o.ProgramOptions]:
    """The options of each program of --program, by label; for `all`, a remark names the programs that are left out.

    With `searching`, the programs that search no index are left out too, since they only serve for comparison. A single
    program has an empty label and all options. Each of several has those of --part that it takes.
    """
    from knowgap.programs import PROGRAMS, get_program

    text = options.program
    if text is None or (text != "all" and "," not in text):
        return {"": options}
    names = [*filter(None, map(str.strip, text.split(",")))]
    if names == ["all"]:
        programs = {name: get_program(name) for name in PROGRAMS}
        without_index = [name for name, each in programs.items() if searching and not each.needs_retriever]
        remark(f"left out: {', '.join(f'{name}, which needs no index' for name in without_index)}")
        names = [_BASE, *(name for name in programs if name not in (*without_index, _BASE))]
    if "all" in names:
        raise UsageError(f"--program {text}: all already includes every program; leave the other names out")
    if not names:
        raise UsageError("--program is empty: name programs or artifact folders, separated by commas")
    if options.settings:
        raise UsageError(f"--set {' '.join(options.settings)} applies to one program, but --program names several")
    parts = named_values(options.parts, "--part")
    takers = {name: {*(kind := program_class_of(name)).part_names, *kind.sub_models} for name in names}
    for name in parts:
        if not any(name in taken for taken in takers.values()):
            raise UsageError(f"--part {name}={parts[name]}: none of the programs has the part {name}")
    return {
        name: o.ProgramOptions(
            name,
            parts=[f"{part}={where}" for part, where in parts.items() if part in takers[name]],
        )
        for name in names
    }


def artifact_of(program: str | None) -> tuple[str | None, Path | None]:
    """Split --program into the name of a program, or None, and the folder of a compiled program, or None.

    `module:Name:FOLDER` is a compiled program of a plugin; `module:Name:FILE` is a program, see `get_program`.
    """
    from knowgap.plugins import split_argument
    from knowgap.programs import PROGRAMS

    if program is None or program in PROGRAMS:
        return program, None
    if Path(program).is_dir():
        return None, Path(program)
    name, folder = split_argument(program)
    if folder is None or Path(folder).is_file():
        return program, None
    return name, Path(folder)


class CheckedProgram(NamedTuple):
    """A program whose names and settings are known to be right.

    Attributes:
        retrieves: whether it searches an index.
        make: makes it from the index and the language model that it will be asked with, and the name of the data set;
            an artifact that was compiled with others warns.
        generator: the model that writes everything in place of the language model, if the program has one.
    """

    retrieves: bool
    make: Callable[[Retriever | None, dspy.LM | None, str], Program]
    generator: Any = None


def check_program(options: o.ProgramOptions) -> CheckedProgram:
    """Check every name and value of the options, before anything is asked.

    Settings take precedence over those of the artifact or preset.

    Raises:
        UnknownName: there is no such program, preset or hyperparameter.
        UsageError: options contradict each other, or a part would have no effect.
        ArtifactError: the artifact cannot be loaded.
    """
    from knowgap.compiling import load
    from knowgap.plugins import reference_of, source_of

    settings: dict[str, Any] = {**named_values(options.settings, "--set")}
    preset = settings.pop("preset", None)
    _, artifact = artifact_of(options.program)
    program_class: Any = program_class_of(options.program)
    if artifact is not None and not (reference := reference_of(program_class)).startswith("knowgap."):
        remark(f"the program {reference} of {artifact} runs {source_of(program_class)}")
    if artifact is not None and preset is not None:
        raise UsageError(f"--set preset={preset}: {artifact} has settings of its own; leave it out")
    named = named_values(options.parts, "--part")
    for name, where in named.items():
        if name not in (*program_class.part_names, *program_class.sub_models):
            raise UsageError(f"--part {name}={where}: the program {program_class.name} has no {name}")
    if preset is not None:
        program_class.preset(preset)
    models = load_parts(options.parts)

    def make(retriever: Retriever | None, lm: dspy.LM | None, dataset: str) -> Program:
        import dspy

        with dspy.context(lm=lm) if lm is not None else nullcontext():
            if artifact is not None:
                loaded = load(artifact, retriever=retriever, expect=program_class, allow_hub=allowed_hub(), **models)
                return loaded.configure(**settings)
            if preset is not None:
                return program_class.from_preset(preset, retriever, **models, **settings)
            return program_class(retriever, **models, **settings)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = make(None, None, "sample")
    may_retrieve = is_module(program_class) and isinstance(options, o.IndexOptions) and options.folder is not None
    return CheckedProgram(program_class.needs_retriever or may_retrieve, make, program.parts().get("generator"))


def is_module(program_class: Any) -> bool:
    """Whether a program class is a factory of programs from a `dspy.Module`."""
    return not isinstance(program_class, type)


def program_class_of(program: str | None) -> type[Program]:
    """The class that --program names, or the artifact's; a plugin's class has to be named with the artifact."""
    from knowgap.compiling.artifact import artifact_class
    from knowgap.programs import get_program

    name, artifact = artifact_of(program)
    if artifact is None:
        if "/" in (name or "").partition(":")[0]:
            raise UsageError(f"{program}: no such folder")
        return get_program(name or o.DEFAULT_PROGRAM)
    return artifact_class(artifact, name)
