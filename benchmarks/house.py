"""The size of the project: `python benchmarks/house.py` prints lines, files, tokens and options, one a row."""

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


def tokens(file: Path) -> int:
    """How many tokens a file has, without comments, docstrings, ends of lines and indentation."""
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    documented = {node.lineno for node in docstrings(file)}
    with file.open(encoding="utf-8") as source:
        found = [token for token in tokenize.generate_tokens(source.readline) if token.type not in skipped]
    return sum(not (token.type == tokenize.STRING and token.start[0] in documented) for token in found)


def options(command: Any) -> Iterator[str]:
    """The options of a command of the command line, or those of each command of a group."""
    for inner in getattr(command, "commands", {}).values():
        yield from options(inner)
    if not hasattr(command, "commands"):
        yield from (p.name for p in command.params if p.opts[0].startswith("-") and p.name != "help")


def main() -> None:
    """Print the table."""
    import typer

    from knowgap.cli.main import app

    source = python_files(*FLOORS)
    documented = [node for file in source for node in docstrings(file)]
    share = sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in documented) / lines(source)
    rows = {
        "source: lines": lines(source),
        "source: files": len(source),
        "source: tokens": sum(map(tokens, source)),
        "source: share of docstrings": f"{share:.1%}",
        "source: characters a line": f"{sum(len(f.read_text(encoding='utf-8')) for f in source) / lines(source):.1f}",
        "benchmarks: lines": lines(python_files("benchmarks")),
        "tests: lines": lines(python_files("tests")),
        "options": len([*options(typer.main.get_command(app))]),
    }
    for name, figure in rows.items():
        sys.stdout.write(f"{name:30}{figure:>10}\n")


if __name__ == "__main__":
    main()
