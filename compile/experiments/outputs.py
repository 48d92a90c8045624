"""The reports of a bench: JSON, CSV, Markdown and a page."""

from __future__ import annotations

import os
from pathlib import Path

from knowgap.compile.experiments.page import page
from knowgap.compile.experiments.result import Bench
from knowgap.compile.experiments.text import markdown

__all__ = ["write_reports"]


def write_reports(bench: Bench, folder: str | Path) -> dict[str, Path]:
    """Write `bench.json`, `bench.csv`, `bench.md` and `index.html`; each is complete, or as it was before.

    Returns:
        The files by name.
    """
    texts = {
        "bench.json": bench.model_dump_json(indent=1),
        "bench.csv": bench.csv(),
        "bench.md": markdown(bench),
        "index.html": page(bench),
    }
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        beside = target / f".{name}.{os.getpid()}"
        beside.write_text(text, encoding="utf-8", newline="")
        beside.replace(target / name)
    return {name: target / name for name in texts}
