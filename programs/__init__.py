"""Question-answering programs: one method per file, found by name and imported when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from knowgap.errors import UsageError
from knowgap.plugins import find, is_reference, reference_of

if TYPE_CHECKING:
    from knowgap.programs.base import Program
    from knowgap.programs.modules import ModuleLike

__all__ = ["PROGRAMS", "get_program", "program_reference"]

PROGRAMS: dict[str, str] = {
    "knowgap": "knowgap.programs.knowgap:KnowGap",
    "migres": "knowgap.programs.migres:MIGRES",
    "adaptive_note": "knowgap.programs.adaptive_note:AdaptiveNote",
    "ra_isf": "knowgap.programs.ra_isf:RAISF",
    "rq_rag": "knowgap.programs.rq_rag:RQRAG",
    "blend_filter": "knowgap.programs.blend_filter:BlendFilter",
    "direct": "knowgap.programs.baselines.rag:Direct",
    "cot": "knowgap.programs.baselines.rag:ChainOfThought",
    "rag": "knowgap.programs.baselines.rag:RAG",
    "rag_cot": "knowgap.programs.baselines.rag:RAGChainOfThought",
    "react": "knowgap.programs.baselines.react:ReAct",
    "self_ask": "knowgap.programs.baselines.self_ask:SelfAsk",
    "iter_retgen": "knowgap.programs.baselines.iter_retgen:IterRetGen",
    "ircot": "knowgap.programs.baselines.ircot:IRCoT",
    "chain_of_note": "knowgap.programs.baselines.rag:ChainOfNote",
    "least_to_most": "knowgap.programs.baselines.least_to_most:LeastToMost",
}
"""The import path of each built-in program's class, by the program's name: methods first, then baselines."""


def get_program(name: str | ModuleLike) -> type[Program]:
    """The class of a program; for a `dspy.Module`, that of the programs that wrap it.

    Args:
        name: a key of `PROGRAMS`; `module:Name` of any other program class, or of a `dspy.Module` class or object; or a
            `dspy.Module` class or object itself.

    Raises:
        UnknownName: there is no such program.
        UsageError: a class that is not part of knowgap cannot be imported, or is not a program.

    >>> import knowgap
    >>> knowgap.get_program("migres").__name__
    'MIGRES'
    """
    if isinstance(name, str) and name in PROGRAMS:
        module, _, class_name = PROGRAMS[name].partition(":")
        return getattr(importlib.import_module(module), class_name)
    from knowgap.programs.base import Program
    from knowgap.programs.modules import is_plain, wrap

    reference = name if isinstance(name, str) else ""
    found: Any = find("program", reference, PROGRAMS) if reference else name
    if is_plain(found):
        return wrap(found, reference)
    if not isinstance(found, type) or not issubclass(found, Program) or not hasattr(found, "forward"):
        kind = f"the class {found.__name__}" if isinstance(found, type) else f"of the type {type(found).__name__}"
        what = "a program is a subclass of knowgap.Program that defines forward(self, question), or a dspy.Module"
        raise UsageError(f"program {name} is {kind}; {what}")
    return found


def program_reference(program_class: type[Program], *, lasting: bool = False) -> str:
    """The name by which `get_program` finds a class: a key of `PROGRAMS`, or `module:Name`.

    Raises:
        UsageError: `lasting` is set, and another process could not find the class by that name.
    """
    reference = reference_of(program_class)
    name = next((name for name, place in PROGRAMS.items() if place == reference), reference)
    if lasting and name not in PROGRAMS:
        importable = is_reference(name) and not name.startswith("__main__:")
        if not importable or not (hasattr(program_class, "reference") or get_program(name) is program_class):
            raise UsageError(
                f"{name.partition(':')[2]} could not be loaded again by the name {name}: put it into a module of its "
                "own, such as mine.py, and import it from there"
            )
    return name
