"""The command that says what this machine has, and what is missing: doctor."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import show_table
from knowgap.errors import UsageError, check_address, is_address

_EXTRAS = {
    "mammoth": "Word files: pip install 'knowgap[documents]'",
    "openpyxl": "Excel files: pip install 'knowgap[documents]'",
    "pypdfium2": "PDF files: pip install 'knowgap[documents]'",
    "pyarrow": "Parquet and Arrow files: pip install 'knowgap[arrow]'",
    "qdrant-client": "Qdrant indexes: pip install 'knowgap[qdrant]'",
    "uvicorn": "knowgap serve: pip install 'knowgap[serve]'",
    "mcp": "knowgap mcp: pip install 'knowgap[mcp]'",
}


@o.grouped
def doctor(
    *,
    index: Annotated[
        str | None,
        Option("--index", "-i", envvar="KNOWGAP_INDEX", help="An index to look at as well: its folder, or its URL."),
    ] = None,
    model: o.ModelOptions,
) -> None:
    """Say what this machine has, what is missing for which feature, and how to get it.

    A language model that is named is asked for one word, and an index for one passage.
    """
    if index is not None and is_address(index):
        check_address(index, "--index")
    rows = list(_examined(index, model))
    show_table("what this machine has", ["", "state", "found"], rows)
    if any(state == "broken" for _, state, _ in rows):
        raise typer.Exit(2)


def _examined(index: str | None, model: o.ModelOptions) -> Iterator[tuple[str, str, str]]:
    """What is looked at, whether it is ok, absent or broken, and what was found."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU that torch can use"
    yield "machine", "ok", f"Python {platform.python_version()}, {os.cpu_count()} cores, {gpu}"
    for name, serves in _EXTRAS.items():
        try:
            yield name, "ok", version(name)
        except PackageNotFoundError:
            yield name, "absent", serves
    yield _check("embedded encoder", _encoder)
    keys = sorted(name for name, value in os.environ.items() if name.endswith("_API_KEY") and value)
    yield "keys", "ok" if keys else "absent", ", ".join(keys) or "no variable such as OPENAI_API_KEY is set"
    if model.lm in (None, "extractive"):
        yield "language model", "absent", "none is named (--lm openai/NAME or KNOWGAP_LM): the embedded reader answers"
    else:
        yield _check("language model", lambda: f"{factories.load_lm(model).model} answers")
    if index is not None:
        yield _check(index, lambda: _index(index))


def _check(name: str, check: Callable[[], str]) -> tuple[str, str, str]:
    try:
        return name, "ok", check()
    except Exception as error:  # the other checks run whatever this one raises
        return name, "broken", f"{type(error).__name__}: {error}"


def _encoder() -> str:
    from knowgap.retrieval.minilm import minilm_folder

    return f"all-MiniLM-L6-v2 in {minilm_folder()}, as published"


def _index(place: str) -> str:
    """Read every file of an index, and search it."""
    from knowgap.retrieval.index.engines import as_retriever
    from knowgap.retrieval.index.manifest import Manifest
    from knowgap.retrieval.remote import RemoteRetriever

    if is_address(place):
        index = RemoteRetriever(place, key=os.environ.get("KNOWGAP_INDEX_KEY") or None)
    elif Path(place).exists():
        Manifest.read(place).verify(place)
        index = as_retriever(place)
    else:
        raise UsageError("there is no such index")
    with factories.closing(index):
        [hits] = index.search(["What is this about?"], 1)
    return f"all files are as they were written; a search found {len(hits)} passage"
