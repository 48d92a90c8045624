"""Run all benchmarks, or those that are named: `python benchmarks/run.py concurrency retrieval --quick`.

Each benchmark is a module in this folder with `measure(options)`, which yields tables; the report prints its docstring
above them.
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

from knowgap.lms import quiet_dspy

BENCHMARKS = ("concurrency", "service", "mutations", "retrieval", "embedded", "evidence", "near_misses", "kills")
PARTS = ("gold", "codes", "size", "index", "eval", "compile", "study")


def main() -> None:
    """Read the command line, run the benchmarks, and print each table as soon as it is there."""
    parser = argparse.ArgumentParser(description="Benchmarks of knowgap: tables in Markdown on standard output.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(BENCHMARKS)} (all)")
    parser.add_argument("--quick", action="store_true", help="small sizes: minutes instead of an hour or more")
    parser.add_argument("--data", type=Path, help="folder of hotpotqa/, 2wikimultihopqa/, strategyqa/ in their layouts")
    parser.add_argument("--count", type=int, help="questions of each data set or program, mutated replies, or kills")
    parser.add_argument("--programs", nargs="+", help="the programs that are measured")
    parser.add_argument("--readers", nargs="+", default=["knowing"], help="evidence: knowing, hesitant (knowing)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="tables of retrieval, or jobs of kills (all)")
    parser.add_argument("--passages", type=int, nargs="+", help="retrieval: sizes of large indexes (50,000 200,000)")
    parser.add_argument("--encoder", help="retrieval: folder or hub name of another bi-encoder")
    parser.add_argument("--reranker", help="retrieval: folder or hub name of a cross-encoder, for the default engine")
    parser.add_argument("--seconds", type=float, help="service: how long each is asked (120)")
    parser.add_argument("--delay-ms", type=float, default=200.0, help="how long the delayed server takes (200)")
    options = parser.parse_args()
    names = options.names or BENCHMARKS
    if unknown := [name for name in names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]!r}: choose among {', '.join(BENCHMARKS)}")
    quiet_dspy()  # without a cache on disk, so that no answer comes from an earlier run
    show = functools.partial(print, flush=True)
    show(f"# Benchmarks\n\n{_describe_machine()}\n")
    for name in names:
        module = importlib.import_module(name)
        show(f"## {name}\n\n{(module.__doc__ or '').strip()}\n")
        for table in module.measure(options):
            show(table.markdown())


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
