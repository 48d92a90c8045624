"""The commands of the group `knowgap train`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from knowgap.cli.training import colbert, embedded, ra_isf, reranker, rq_rag

__all__ = ["COMMANDS", "HELP"]

HELP = "Train models on your own questions: each command, a kind of model."

_MODULES: list[ModuleType] = [reranker, colbert, ra_isf, rq_rag, embedded]

COMMANDS: dict[str, Callable[..., None]] = {
    name: command for module in _MODULES for name, command in module.COMMANDS.items()
}
