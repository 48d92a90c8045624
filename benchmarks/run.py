"""Run all benchmarks, or those that are named: `python benchmarks/run.py concurrency retrieval --quick`.

Each benchmark is a module in this folder with `add_arguments(group)`, if it has options, and `measure(options)`, which
yields tables; the report prints its docstring above them.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import platform
import re
import time
from importlib.metadata import version
from pathlib import Path

import psutil
from table import note, seconds

from knowgap.lms import quiet_dspy

BENCHMARKS = ("concurrency", "service", "mutations", "retrieval", "embedded", "evidence", "near_misses", "kills")


def main() -> None:
    """Read the command line, run the benchmarks, and print each table as soon as it is there."""
    modules = {name: importlib.import_module(name) for name in BENCHMARKS}
    parser = argparse.ArgumentParser(description="Benchmarks of knowgap: tables in Markdown on standard output.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(BENCHMARKS)} (all)")
    parser.add_argument("--quick", action="store_true", help="small sizes: minutes instead of an hour or more")
    parser.add_argument("--data", type=Path, help="folder of hotpotqa/, 2wikimultihopqa/, strategyqa/ in their layouts")
    for name, module in modules.items():
        if hasattr(module, "add_arguments"):
            module.add_arguments(parser.add_argument_group(name))
    options = parser.parse_args()
    names = options.names or BENCHMARKS
    if unknown := [name for name in names if name not in modules]:
        parser.error(f"there is no benchmark {unknown[0]!r}: choose among {', '.join(BENCHMARKS)}")
    quiet_dspy()  # without a cache on disk, so that no answer comes from an earlier run
    show = functools.partial(print, flush=True)
    show(f"# Benchmarks\n\n{_describe_machine()}\n")
    for name in names:
        module, started = modules[name], time.perf_counter()
        show(f"## {name}\n\n{(module.__doc__ or '').strip()}\n")
        for table in module.measure(options):
            show(table.markdown())
        note(f"{name}: {seconds(time.perf_counter() - started)}")


def _describe_machine() -> str:
    import torch

    known = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    model = re.search(r"model name\s*: (.*)", known)
    parts = [
        f"{os.cpu_count()} cores, {model[1] if model else platform.machine()}",
        f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU",
        f"{platform.system()}, Python {platform.python_version()}, torch {torch.__version__}",
        f"{torch.get_num_threads()} threads; knowgap {version('knowgap')}, dspy {version('dspy')}",
        time.strftime("%Y-%m-%d"),
    ]
    return f"Machine: {', '.join(parts)}; load at the start {psutil.getloadavg()[0]:.1f}."


if __name__ == "__main__":
    main()
