"""What the benchmarks share: their options, their tables in Markdown, and the machine they ran on."""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["Table", "data_folder", "main", "note", "percentile", "ratio", "seconds"]

Measure = Callable[[argparse.Namespace], Iterator["Table"]]


@dataclass(frozen=True)
class Table:
    """One table of a report.

    Args:
        title: what was measured.
        columns: their headings.
        rows: cells, already in words.
        remarks: what a reader must know to read the figures rightly.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    remarks: Sequence[str] = ()

    def markdown(self) -> str:
        """The table, its title above it and its remarks below."""

        def line(cells: Sequence[Any]) -> str:
            return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

        numeric = [all(str(row[i])[:1] in "–-+0123456789" for row in self.rows) for i in range(len(self.columns))]
        rule = "|" + "|".join("---:" if right else "---" for right in numeric) + "|"
        body = [line(self.columns), rule, *map(line, self.rows)]
        return "\n".join([f"### {self.title}", "", *body, "", *(f"{remark}\n" for remark in self.remarks)])


def main(names: Sequence[str], arguments: Sequence[str] | None = None) -> None:
    """Run benchmarks and print their tables as they come.

    Args:
        names: the modules of this folder that can be run; where there are several, the command line chooses.
        arguments: the command line, without the program's name.
    """
    modules = {name: _module(name) for name in names}
    parser = argparse.ArgumentParser(description="Benchmarks of knowgap: tables in Markdown on standard output.")
    if len(names) > 1:
        parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(names)} (all)")
    parser.add_argument("--quick", action="store_true", help="small sizes: minutes instead of an hour or more")
    parser.add_argument("--data", type=Path, help="folder of hotpotqa/, 2wikimultihopqa/, strategyqa/ in their layouts")
    parser.add_argument("--output", type=Path, help="also write the report to this file")
    for name, module in modules.items():
        module.add_arguments(parser.add_argument_group(name))
    options = parser.parse_args(arguments)
    chosen = list(dict.fromkeys(getattr(options, "names", names) or names))
    for name in chosen:
        if name not in modules:
            parser.error(f"there is no benchmark {name!r}: choose among {', '.join(names)}")
    pieces: list[str] = []

    def show(text: str) -> None:
        pieces.append(text)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
        if options.output:
            options.output.write_text("\n".join(pieces), encoding="utf-8")

    from knowgap.lms import quiet_dspy

    quiet_dspy()  # no cache on disk: no answer of an earlier run is found
    show(f"# Benchmarks\n\n{_machine()}\n")
    for name in chosen:
        module, started = modules[name], time.perf_counter()
        show(f"## {name}\n\n{(module.__doc__ or '').strip()}\n")
        for table in module.measure(options):
            show(table.markdown())
        note(f"{name}: {seconds(time.perf_counter() - started)}")


def _module(name: str) -> ModuleType:
    """A script of this folder; the one that is being run stands in `sys.modules` under another name."""
    running = sys.modules["__main__"]
    if Path(getattr(running, "__file__", None) or "").resolve() == Path(__file__).with_name(f"{name}.py").resolve():
        return running
    import importlib

    return importlib.import_module(name)


def _machine() -> str:
    import torch

    model = next((line for line in _lines("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    total = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "")
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    parts = [
        f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores",
        model.partition(":")[2].strip() or platform.machine(),
        f"{int(total) / 2**20:.0f} GiB" if total else "",
        gpu,
        f"{platform.system()}, Python {platform.python_version()}, torch {torch.__version__}",
        f"{torch.get_num_threads()} threads; knowgap {version('knowgap')}, dspy {version('dspy')}",
        f"colbert-ai {version('colbert-ai')}, {time.strftime('%Y-%m-%d')}",
    ]
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    return f"Machine: {', '.join(filter(None, parts))}; load at the start {load:.1f}."


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def data_folder(options: argparse.Namespace) -> Path | None:
    """The folder of real data: `--data`, or the environment's KNOWGAP_TEST_DATA; None where neither is there."""
    named = options.data or os.environ.get("KNOWGAP_TEST_DATA")
    folder = Path(named) if named else None
    if options.data and not options.data.is_dir():
        raise SystemExit(f"--data {options.data}: there is no such folder")
    return folder if folder and folder.is_dir() else None


def note(text: str) -> None:
    """A line about what is going on, on standard error."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def ratio(value: float, base: float) -> str:
    """`value` over `base`."""
    return f"{value / base:.2f}" if base else "–"


def seconds(value: float) -> str:
    """A time in the unit that fits."""
    if value < 1:
        return f"{1000 * value:.1f} ms"
    return f"{value:.1f} s" if value < 100 else f"{value / 60:.1f} min"
