"""What one question costs on the command line: processor time of `search` and `ask`, and time of what `ask` imports.

Each command runs in a process of its own, over indexes that exist already; with `--before`, it takes turns with the
same command of another installation. A figure is the least of the rounds. For `ask`, a second figure is the time
before its program gets the question: what follows is the search, the work of the embedded models and the check of the
answer.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from table import Table, note, ratio, seconds

_QUESTION = "Which river does the Orle Bridge cross?"
_LEAST = 0.02  # seconds; a package that takes less is among the others
_COMMANDS = {
    "search, by words": ["search", _QUESTION, "--index", "bm25"],
    "search, ColBERT": ["search", _QUESTION, "--index", "colbert"],
    "ask, rag by words": ["ask", _QUESTION, "--index", "bm25", "--program", "rag"],
    "ask, knowgap by words": ["ask", _QUESTION, "--index", "bm25"],
    "ask, knowgap, ColBERT": ["ask", _QUESTION, "--index", "colbert"],
}
_TOLD = "processor seconds before the question: "
_ASK = f"""
import sys, time
from knowgap.programs.base import Program

called = Program.__call__

def tell(self, *values, **named):
    print("{_TOLD}" + str(time.process_time()), file=sys.stderr)
    return called(self, *values, **named)

Program.__call__ = tell
from knowgap.cli.main import main
main()
"""


def add_arguments(group: Any) -> None:
    """Add the options of this benchmark."""
    group.add_argument("--command-rounds", type=int, help="runs of each command (5; quick 1)")
    group.add_argument("--before", type=Path, help="the Python of another installation of knowgap")


def measure(options: argparse.Namespace) -> Iterator[Table]:
    """A table of the commands, and one of the imports of `ask`."""
    rounds = options.command_rounds or (1 if options.quick else 5)
    pythons = [*filter(None, [options.before and str(options.before)]), sys.executable]
    with tempfile.TemporaryDirectory(prefix="knowgap-benchmark-") as folder:
        for engine in ("bm25", "colbert"):
            build = ["index", "--data", "sample", "--index", engine, "--engine", engine]
            _run(sys.executable, build, folder, "built")
        rows = []
        for name, command in _COMMANDS.items():
            note(f"commands: {name}")
            spent: dict[str, list[float]] = {python: [] for python in pythons}
            for turn in range(rounds):
                for python in pythons:
                    spent[python].append(_run(python, command, folder, f"{pythons.index(python)}-{turn}")[0])
            least = [min(spent[python]) for python in pythons]
            shares = [ratio(least[-1], least[0])] if options.before else []
            rows.append([name, *map(seconds, least), *shares, _before_the_question(command, folder, rounds)])
        columns = ["before", "now", "share"] if options.before else ["processor time"]
        columns.append("of it before the question")
        remark = f"The least of {rounds} runs; no answer comes from a cache."
        yield Table("Processor time of a command", ["command", *columns], rows, [remark])
        timed = ("-X", "importtime", "-m", "knowgap")
        told = _run(sys.executable, _COMMANDS["ask, rag by words"], folder, "imports", timed)[1]
    yield _imports(told)


def _before_the_question(command: Sequence[str], folder: str, rounds: int) -> str:
    """The least processor time until a program of `ask` gets its question."""
    if command[0] != "ask":
        return ""
    told = [_run(sys.executable, command, folder, f"start-{turn}", ("-c", _ASK))[1] for turn in range(rounds)]
    return seconds(min(float(re.findall(f"{_TOLD}(.+)", words)[0]) for words in told))


def _run(
    python: str, command: Sequence[str], folder: str, cache: str, program: Sequence[str] = ("-m", "knowgap")
) -> tuple[float, str]:
    """The processor seconds of a command in a process of its own, and what it wrote to standard error."""
    environment = {**os.environ, "KNOWGAP_HOME": str(Path(folder) / f"home-{cache}-{len(os.listdir(folder))}")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [python, *program, *command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stderr


def _imports(told: str) -> Table:
    """The table of what Python wrote about imports: the time that each package's own files take."""
    spent, modules = Counter[str](), Counter[str]()
    for own, name in re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+([\w.]+)$", told, re.MULTILINE):
        package = name.partition(".")[0]
        spent[package] += int(own)
        modules[package] += 1
    shown = [package for package, time in spent.most_common() if time / 1e6 >= _LEAST]
    others = [package for package in spent if package not in shown]
    rows = [[package, modules[package], seconds(spent[package] / 1e6)] for package in shown]
    rows.append(["others", sum(modules[p] for p in others), seconds(sum(spent[p] for p in others) / 1e6)])
    rows.append(["all", modules.total(), seconds(spent.total() / 1e6)])
    remark = "Clock time of the files of each package, as `python -X importtime` prints it, which slows imports down."
    return Table("What `ask` imports", ["package", "modules", "time"], rows, [remark])
