"""Commands that say what there is, and what is missing: ls, doctor."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Annotated, Any

from typer import Argument, Exit

from knowgap.cli.display import show_table
from knowgap.errors import KnowgapError, UnknownName
from knowgap.plugins import is_reference

EXTRAS = {
    "arrow": "Parquet and Arrow files",
    "dashboard": "the page of a study",
    "documents": "PDF, Word, PowerPoint and Excel files",
    "mcp": "knowgap mcp",
    "qdrant": "Qdrant indexes",
    "serve": "knowgap serve",
    "train": "knowgap train",
}
"""What each extra is for."""

_OUR_OPTIMIZERS = {
    "study": "searches hyperparameters and demonstrations together, by Optuna",
    "calibrate": "sets the relevance threshold δ from the training questions",
}


def ls(
    what: Annotated[
        str, Argument(help="programs, datasets, metrics, costs, optimizers, checkpoints, tables, or a program's name.")
    ] = "all",
) -> None:
    """List programs, data sets, metrics and whatever else has a name; or one program's hyperparameters."""
    from knowgap.compiling.data import DATASETS
    from knowgap.compiling.demonstrations.optimizers import OPTIMIZERS
    from knowgap.compiling.evaluation.metrics import METRICS
    from knowgap.compiling.evaluation.results import COSTS
    from knowgap.compiling.experiments.table import read_table, shipped_tables
    from knowgap.programs import PROGRAMS, get_program
    from knowgap.retrieval.hub import CHECKPOINTS

    programs = {name: get_program(name) for name in PROGRAMS}
    lists: dict[str, list[tuple[str, ...]]] = {
        "programs": [(name, kind.calls, _first_line(kind)) for name, kind in programs.items()],
        "datasets": [*DATASETS.items()],
        "metrics": [(name, _first_line(metric)) for name, metric in METRICS.items()],
        "costs": [*COSTS.items()],
        "optimizers": [*_OUR_OPTIMIZERS.items(), *((name, each.summary) for name, each in OPTIMIZERS.items())],
        "checkpoints": [*CHECKPOINTS.items()],
        "tables": [(name, read_table(name).title) for name in shipped_tables()],
    }
    if what in programs or is_reference(what):
        _describe_program(what)
        return
    if what != "all" and what not in lists:
        raise UnknownName.among("program or list", what, [*lists, *programs])
    for name, rows in lists.items():
        if what in (name, "all"):
            columns = ["name", "LM calls a question", "what it is"] if name == "programs" else ["name", "what it is"]
            show_table(name, columns, rows)


def _first_line(documented: Any) -> str:
    return next(iter((documented.__doc__ or "").strip().splitlines()), "")


def _describe_program(name: str) -> None:
    from knowgap.programs import get_program

    program = get_program(name)
    rows = [[key, h.default, h.bounds, h.help] for key, h in program.hyperparameters().items()]
    show_table(f"{name}: {_first_line(program)}", ["hyperparameter", "default", "bounds", "what it does"], rows)
    presets = {key: ", ".join(f"{name}={v}" for name, v in values.items()) for key, values in program.presets.items()}
    if presets:
        show_table("presets", ["preset", "settings"], [*presets.items()])


def doctor() -> None:
    """Say what this machine has, what is missing for which feature, and how to get it."""
    rows = list(_examined())
    show_table("what this machine has", ["", "state", "found"], rows)
    if any(state == "broken" for _, state, _ in rows):
        raise Exit(2)


def _absent(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    absent = list[str]()
    for requirement in requires("knowgap") or ():
        name, _, marker = requirement.partition(";")
        if re.search(rf"extra == ['\"]{extra}['\"]", marker):
            package = re.split(r"[^\w.-]", name)[0]
            try:
                version(package)
            except PackageNotFoundError:
                absent.append(package)
    return absent


def _examined() -> Iterator[tuple[str, str, str]]:
    """What is examined: its name, whether it is ok, absent or broken, and what was found."""
    import torch

    from knowgap.retrieval.minilm import minilm_folder

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU that torch can use"
    yield "machine", "ok", f"Python {platform.python_version()}, {os.cpu_count()} cores, {gpu}"
    for extra, serves in EXTRAS.items():
        if absent := _absent(extra):
            yield extra, "absent", f"{serves}: pip install 'knowgap[{extra}]' (no {', '.join(absent)})"
        else:
            yield extra, "ok", serves
    try:
        yield "embedded encoder", "ok", f"all-MiniLM-L6-v2 in {minilm_folder()}, as published"
    except KnowgapError as error:
        yield "embedded encoder", "broken", str(error)
    keys = sorted(name for name, value in os.environ.items() if name.endswith("_API_KEY") and value)
    yield "keys", "ok" if keys else "absent", ", ".join(keys) or "no variable such as OPENAI_API_KEY is set"
