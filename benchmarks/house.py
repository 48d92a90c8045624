"""The size of the project: `python benchmarks/house.py` prints lines, files, tokens and options, one a row."""

from __future__ import annotations

import ast
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
FLOORS = ("app", "compile", "lms", "programs", "retrieval", "signatures")
LAYOUT = ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER")


def texts(*folders: str) -> list[str]:
    """The Python files below folders of the checkout."""
    return [file.read_text(encoding="utf-8") for folder in folders for file in (ROOT / folder).rglob("*.py")]


def docstrings(text: str) -> list[ast.stmt]:
    """The docstrings of a file: of its module, classes and functions."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    return [node.body[0] for node in nodes if ast.get_docstring(node) is not None]


def tokens(text: str) -> int:
    """How many tokens a file has, without comments, docstrings, ends of lines and indentation."""
    documented = {node.lineno for node in docstrings(text)}
    found = tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__)
    kept = [token for token in found if tokenize.tok_name[token.type] not in LAYOUT]
    return sum(not (token.type == tokenize.STRING and token.start[0] in documented) for token in kept)


def main() -> None:
    """Print the table."""
    import typer

    from knowgap.cli.main import app

    source = texts(*FLOORS)
    folders = (*FLOORS, "benchmarks", "tests")
    lines = {folder: sum(len(text.splitlines()) for text in texts(folder)) for folder in folders}
    of_source = sum(lines[floor] for floor in FLOORS)
    documented = [node for text in source for node in docstrings(text)]
    share = sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in documented) / of_source
    parameters = [p for command in typer.main.get_command(app).commands.values() for p in command.params]
    rows = {
        "source: lines": of_source,
        "source: files": len(source),
        "source: tokens": sum(map(tokens, source)),
        "source: share of docstrings": f"{share:.1%}",
        "source: characters a line": f"{sum(map(len, source)) / of_source:.1f}",
        "benchmarks: lines": lines["benchmarks"],
        "tests: lines": lines["tests"],
        "options": sum(p.opts[0].startswith("-") and p.name != "help" for p in parameters),
    }
    for name, figure in rows.items():
        sys.stdout.write(f"{name:30}{figure:>10}\n")


if __name__ == "__main__":
    main()
