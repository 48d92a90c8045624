"""Question-answering programs: one method per file, looked up by name.

>>> from knowgap.programs import get_program
>>> get_program("migres").__name__
'MIGRES'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from knowgap.errors import UnknownName

if TYPE_CHECKING:
    from knowgap.programs.base import Program as Program
    from knowgap.programs.baselines.cot import ChainOfThought as ChainOfThought
    from knowgap.programs.baselines.direct import Direct as Direct
    from knowgap.programs.baselines.rag import RAG as RAG
    from knowgap.programs.baselines.rag_cot import RAGChainOfThought as RAGChainOfThought
    from knowgap.programs.migres import MIGRES as MIGRES
    from knowgap.programs.trace import Cost as Cost
    from knowgap.programs.trace import Trace as Trace

PROGRAMS: dict[str, str] = {
    "migres": "knowgap.programs.migres:MIGRES",
    "direct": "knowgap.programs.baselines.direct:Direct",
    "cot": "knowgap.programs.baselines.cot:ChainOfThought",
    "rag": "knowgap.programs.baselines.rag:RAG",
    "rag_cot": "knowgap.programs.baselines.rag_cot:RAGChainOfThought",
}
"""Program names and where their classes are; methods first, then baselines."""

_PUBLIC = {
    **{path.partition(":")[2]: path for path in PROGRAMS.values()},
    "Program": "knowgap.programs.base:Program",
    "Cost": "knowgap.programs.trace:Cost",
    "Trace": "knowgap.programs.trace:Trace",
}

__all__ = [
    "MIGRES",
    "PROGRAMS",
    "RAG",
    "ChainOfThought",
    "Cost",
    "Direct",
    "Program",
    "RAGChainOfThought",
    "Trace",
    "get_program",
]


def get_program(name: str) -> type[Program]:
    """The class of the program called `name`.

    Raises:
        UnknownName: with the names that exist.
    """
    if name not in PROGRAMS:
        raise UnknownName.among("program", name, PROGRAMS)
    return _load(PROGRAMS[name])


def _load(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return _load(_PUBLIC[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
