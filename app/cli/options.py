"""The options that several commands share, each defined once: as a type, or as a field of a group of options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, cast, get_type_hints

from typer import Option


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: a parameter whose type is a dataclass becomes the dataclass's fields."""
    signature = inspect.signature(command, eval_str=True)
    groups, parameters = dict[str, Any](), list[inspect.Parameter]()
    for name, parameter in signature.parameters.items():
        if not is_dataclass(parameter.annotation):
            parameters.append(parameter)
            continue
        groups[name] = group = parameter.annotation
        hints = get_type_hints(group, include_extras=True)
        for field in fields(group):
            parameters.append(parameter.replace(name=field.name, default=field.default, annotation=hints[field.name]))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        made = {name: group(**{f.name: values.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
        command(**values, **made)

    cast("Any", run).__signature__ = signature.replace(parameters=parameters)
    return run


DEFAULT_PROGRAM = "knowgap"
"""The program if none is named."""

Engine = Annotated[
    str | None,
    Option(
        "--engine",
        envvar="KNOWGAP_ENGINE",
        help="Index engine: hybrid (words in common and late interaction of token vectors; the default for new "
        "indexes), bm25 (words alone), colbert (late interaction alone), dense (one vector a passage), plaid (late "
        "interaction, compressed by colbert-ai) or qdrant (late interaction on a Qdrant server).",
    ),
]
Limit = Annotated[int | None, Option("--limit", "-n", help="Use only the first N questions.")]
Seed = Annotated[int, Option("--seed", help="Random seed.")]
Threads = Annotated[int, Option("--num-threads", min=1, help="Questions asked (or written) at once.")]
OutputDir = Annotated[Path | None, Option("--output-dir", "-o", help="Folder for the files that the command writes.")]
Json = Annotated[bool, Option("--json", help="Print JSON instead of tables.")]
DryRun = Annotated[bool, Option("--dry-run", help="Ask three questions; estimate calls, tokens and price.")]
Parts = Annotated[
    list[str] | None,
    Option(
        "--part",
        help="A model beside the language model, as NAME=WHERE: reranker (embedded), entailment (grounding, or lm, "
        "the language model itself), both also by a path, hub name or module:Name; and those that `knowgap train` "
        "makes, by folder. Can be repeated.",
    ),
]


@dataclass(frozen=True)
class ModelOptions:
    """A language model with its server and its options."""

    lm: Annotated[
        str | None,
        Option(
            "--lm",
            envvar="KNOWGAP_LM",
            help="Language model: a DSPy name (openai/…, ollama_chat/…), hf/PATH, or extractive (embedded; the "
            "default).",
        ),
    ] = None
    api_base: Annotated[
        str | None, Option("--api-base", envvar="KNOWGAP_API_BASE", help="Endpoint of an OpenAI-compatible server.")
    ] = None
    lm_option: Annotated[
        list[str] | None,
        Option(
            "--lm-option",
            envvar="KNOWGAP_LM_OPTIONS",
            help="An option of the language model, as NAME=VALUE: temperature, max_tokens, timeout (seconds; 120 "
            "unless set), num_retries (3 unless set), … Can be repeated; in the environment, with spaces between.",
        ),
    ] = None


@dataclass(frozen=True)
class ProgramOptions:
    """A program with its settings, and the models other than the language model."""

    program: Annotated[
        str | None,
        Option(
            "--program",
            "-p",
            help="Program: see `knowgap ls`; the folder of a compiled one; or module:Name, one of your own "
            "or a dspy.Module (module:Name:FOLDER if it is compiled). "
            "eval and compile also take several, separated by commas, or all.",
            show_default=DEFAULT_PROGRAM,
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        Option(
            "--set",
            "-s",
            help="A hyperparameter, as name=value, or preset=NAME, the paper's settings for a family of tasks (see "
            "`knowgap ls PROGRAM`). Can be repeated.",
        ),
    ] = None
    parts: Parts = None


@dataclass(frozen=True)
class IndexOptions:
    """An index."""

    folder: Annotated[
        str | None,
        Option(
            "--index",
            "-i",
            envvar="KNOWGAP_INDEX",
            help="Index folder; a folder of documents, whose index is kept and follows it; the URL of `knowgap serve`; "
            "module:Name, a retriever of your own; or sample, a bundled fictional encyclopedia.",
        ),
    ] = None


@dataclass(frozen=True)
class DataOptions(IndexOptions):
    """A data set with its index, which is made of its own passages at first use if none is named."""

    data: Annotated[
        str | None,
        Option(
            "--data",
            "-d",
            help="Data set: a name of `knowgap ls`, a file or a folder; sample, the default, is a bundled fictional "
            "encyclopedia.",
        ),
    ] = None
    limit: Limit = None
    seed: Seed = 0


@dataclass(frozen=True)
class JobOptions(ModelOptions, DataOptions, ProgramOptions):
    """Programs, the language model and the data set with which they are scored, and where scores go."""

    metric: Annotated[
        list[str] | None,
        Option(
            "--metric",
            "-m",
            help="Metric: see `knowgap ls metrics`; or module:Name; by default f1 and exact_match. The first is "
            "optimized. Can be repeated.",
        ),
    ] = None
    num_threads: Threads = 4
    output_dir: OutputDir = None
    dry_run: DryRun = False
