"""The size of the project: `python benchmarks/house.py` prints lines, files, tokens, options and circles, one a row.

`places of options` counts each option once for every command that has it. A circle is a set of files that import each
other, wherever in a file the import is; imports for type checkers alone count as well.
"""

from __future__ import annotations

import ast
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FLOORS = ("app", "compile", "lms", "programs", "retrieval", "signatures")


def python_files(*folders: str) -> list[Path]:
    """The Python files below folders of the checkout."""
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def lines(files: list[Path]) -> int:
    """How many lines the files have together."""
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def docstrings(file: Path) -> list[ast.stmt]:
    """The docstrings of a file: of its module, classes and functions."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, kinds)]
    return [node.body[0] for node in nodes if ast.get_docstring(node) is not None]


def docstring_lines(file: Path) -> int:
    """How many lines of a file are docstrings."""
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in docstrings(file))


def tokens(file: Path) -> int:
    """How many tokens a file has, without comments, docstrings, ends of lines and indentation."""
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    documented = {node.lineno for node in docstrings(file)}
    with file.open(encoding="utf-8") as source:
        found = [token for token in tokenize.generate_tokens(source.readline) if token.type not in skipped]
    return sum(not (token.type == tokenize.STRING and token.start[0] in documented) for token in found)


def commands(app: Any) -> Iterator[Any]:
    """The commands of the command line that do something, which groups do not."""
    import typer

    waiting = [typer.main.get_command(app)]
    while waiting:
        command = waiting.pop()
        if hasattr(command, "commands"):
            waiting.extend(command.commands.values())
        else:
            yield command


def circles() -> list[set[str]]:
    """The sets of files that import each other."""
    import grimp

    graph = grimp.build_graph("knowgap")
    reached = {module: graph.find_upstream_modules(module) for module in graph.modules}
    found: list[set[str]] = []
    for module, others in reached.items():
        circle = {other for other in others if module in reached[other]} | {module}
        if len(circle) > 1 and circle not in found:
            found.append(circle)
    return found


def main() -> None:
    """Print the table."""
    import knowgap
    from knowgap.cli.main import app

    source = python_files(*FLOORS)
    options = [p.name for c in commands(app) for p in c.params if p.opts[0].startswith("-") and p.name != "help"]
    rows = {
        "source: lines": lines(source),
        "source: files": len(source),
        "source: tokens": sum(map(tokens, source)),
        "source: share of docstrings": f"{sum(map(docstring_lines, source)) / lines(source):.1%}",
        "source: characters a line": f"{sum(len(f.read_text(encoding='utf-8')) for f in source) / lines(source):.1f}",
        "benchmarks: lines": lines(python_files("benchmarks")),
        "tests: lines": lines(python_files("tests")),
        "circles between files": len(circles()),
        "commands": len(list(commands(app))),
        "options": len({*options}),
        "places of options": len(options),
        "public names": len([name for name in dir(knowgap) if not name.startswith("_")]),
    }
    for name, figure in rows.items():
        sys.stdout.write(f"{name:30}{figure:>10}\n")


if __name__ == "__main__":
    main()
