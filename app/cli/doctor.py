"""The command that says what this machine has, and what is missing: doctor."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import typer

from knowgap.cli.display import show_table
from knowgap.errors import KnowgapError

_EXTRAS = {
    "mammoth": "Word files: pip install 'knowgap[documents]'",
    "python-pptx": "PowerPoint files: pip install 'knowgap[documents]'",
    "openpyxl": "Excel files: pip install 'knowgap[documents]'",
    "pypdfium2": "PDF files: pip install 'knowgap[documents]'",
    "pyarrow": "Parquet and Arrow files: pip install 'knowgap[arrow]'",
    "qdrant-client": "Qdrant indexes: pip install 'knowgap[qdrant]'",
    "uvicorn": "knowgap serve: pip install 'knowgap[serve]'",
    "mcp": "knowgap mcp: pip install 'knowgap[mcp]'",
}


def doctor() -> None:
    """Say what this machine has, what is missing for which feature, and how to get it."""
    rows = list(_examined())
    show_table("what this machine has", ["", "state", "found"], rows)
    if any(state == "broken" for _, state, _ in rows):
        raise typer.Exit(2)


def _examined() -> Iterator[tuple[str, str, str]]:
    """What is examined: its name, whether it is ok, absent or broken, and what was found."""
    import torch

    from knowgap.retrieval.minilm import minilm_folder

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU that torch can use"
    yield "machine", "ok", f"Python {platform.python_version()}, {os.cpu_count()} cores, {gpu}"
    for name, serves in _EXTRAS.items():
        try:
            yield name, "ok", version(name)
        except PackageNotFoundError:
            yield name, "absent", serves
    try:
        yield "embedded encoder", "ok", f"all-MiniLM-L6-v2 in {minilm_folder()}, as published"
    except KnowgapError as error:
        yield "embedded encoder", "broken", str(error)
    keys = sorted(name for name, value in os.environ.items() if name.endswith("_API_KEY") and value)
    yield "keys", "ok" if keys else "absent", ", ".join(keys) or "no variable such as OPENAI_API_KEY is set"
