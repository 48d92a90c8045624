"""Packages whose modules are imported when one of their names is first used (PEP 562).

Such a package lists its public names once, as imports that only type checkers run::

    if TYPE_CHECKING:
        from knowgap.compiling.artifact import load_artifact
        from knowgap.retrieval.bm25 import BM25Index as BM25Index

        load = load_artifact  # exported by another name, and only by that
    else:
        __all__, __getattr__, __dir__ = export_lazily(__name__)

`export_lazily` reads these lines from the package's source, so importing the package imports none of its modules.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["export_lazily"]


def export_lazily(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package from its imports under `if TYPE_CHECKING:`.

    Raises:
        ImportError: the package was installed without its sources.
    """
    spec = sys.modules[package].__spec__
    source = getattr(spec.loader, "get_source", lambda name: None)(package) if spec else None
    if source is None:
        raise ImportError(f"{package} needs its sources: install knowgap from a wheel or a source archive")
    places: dict[str, tuple[str, str]] = {}
    for block in ast.parse(source).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for statement in block.body:
                if isinstance(statement, ast.ImportFrom):
                    places |= {alias.name: (str(statement.module), alias.name) for alias in statement.names}
                elif isinstance(statement, ast.Assign):
                    places[ast.unparse(statement.targets[0])] = places.pop(ast.unparse(statement.value))
    names = sorted(places)

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = places[name]
        return getattr(import_module(module), attribute)

    return names, get, lambda: names
