"""Question-answering programs: one method per file, found by name and imported when first used.

>>> from knowgap.programs import get_program
>>> get_program("migres").__name__
'MIGRES'
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from knowgap.errors import UsageError
from knowgap.plugins import find, is_reference, reference_of

if TYPE_CHECKING:
    from knowgap.programs.base import Program
    from knowgap.programs.modules import ModuleLike

__all__ = [
    "PROGRAMS",
    "get_program",
    "get_saved_program",
    "is_program_name",
    "program_reference",
]

PROGRAMS: dict[str, str] = {
    "knowgap": "knowgap.programs.knowgap:KnowGap",
    "migres": "knowgap.programs.migres:MIGRES",
    "adaptive_note": "knowgap.programs.adaptive_note:AdaptiveNote",
    "ra_isf": "knowgap.programs.ra_isf:RAISF",
    "rq_rag": "knowgap.programs.rq_rag:RQRAG",
    "blend_filter": "knowgap.programs.blend_filter:BlendFilter",
    "direct": "knowgap.programs.baselines.direct:Direct",
    "cot": "knowgap.programs.baselines.direct:ChainOfThought",
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
            `dspy.Module` class or object itself, in which case `.with_fields(input=…, output=…)` of the result names
            its fields.

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
    from knowgap.programs.modules import ModuleProgram, as_kind, wrap

    if not isinstance(name, str):
        return as_kind(name)
    found = find("program", name, PROGRAMS)
    if isinstance(kind := as_kind(found), type) and issubclass(kind, ModuleProgram):
        return wrap(found, name, name=name if name.rpartition(":")[2] in PROGRAMS else "")
    _check_class(found, f"program {name}")
    return found


def get_saved_program(
    name: str, expect: str | type[Program] | ModuleLike | None = None, module_class: str = ""
) -> type[Program]:
    """The class of a program that a file names.

    The name in the file alone does not cause the import of a module that is not part of knowgap: the caller must name
    the program, or the module must have been imported already.

    Args:
        name: as `program_reference` returns it.
        expect: the program that the caller expects, by name, class or module; None accepts any.
        module_class: `module:Name` of the class of a saved module; an expected module matches if it is of this class.

    Raises:
        UsageError: another program is expected; or the program is not part of knowgap, and the caller does not name it
            or it cannot be imported.
    """
    module = name.partition(":")[0]
    if expect is None and name not in PROGRAMS and module not in sys.modules:
        raise UsageError(
            f"holds the program {name}, which is not part of knowgap, and runs the module {module}; if you trust "
            f"it, name it as well: --program {name}:FOLDER, or in Python expect={name!r}"
        )
    kind: Any = get_program(name if expect is None else expect)
    wanted = program_reference(kind)
    if wanted != name and reference_of(getattr(kind, "code", None)) != module_class:
        raise UsageError(f"holds the program {name!r}, not {wanted!r}")
    return kind


def is_program_name(name: Any) -> bool:
    """Whether a value has the form of what `program_reference` returns."""
    return isinstance(name, str) and (name in PROGRAMS or is_reference(name))


def program_reference(program_class: type[Program], *, lasting: bool = False) -> str:
    """The name by which `get_program` finds a class: a key of `PROGRAMS`, or `module:Name`.

    Raises:
        UsageError: `lasting` is set, and another process could not find the class by that name.
    """
    reference = reference_of(program_class)
    name = next((name for name, place in PROGRAMS.items() if place == reference), reference)
    if lasting and (name.startswith("__main__:") or (not is_reference(name) and name not in PROGRAMS)):
        raise UsageError(
            f"{reference.partition(':')[2]} could not be loaded again, since it is defined in the script that runs, or "
            "in a function: put it into a module of its own, such as mine.py, and import it from there"
        )
    if lasting and not hasattr(program_class, "reference") and get_program(name) is not program_class:
        raise UsageError(f"{name} now names a different class, so this program could not be loaded again")
    return name


def _check_class(found: Any, what: str) -> None:
    """Check that an object is the class of a program, and that it is instantiated as other programs are.

    Raises:
        UsageError: it is not; the message says what to write.
    """
    from knowgap.programs.base import Program

    if not isinstance(found, type) or not issubclass(found, Program) or not hasattr(found, "forward"):
        kind = f"the class {found.__name__}" if isinstance(found, type) else f"of the type {type(found).__name__}"
        raise UsageError(
            f"{what} is {kind}; a program is a subclass of knowgap.Program that defines forward(self, question), or a "
            "dspy.Module"
        )
    if program_reference(found) in PROGRAMS:
        return
    if found.name in PROGRAMS:
        raise UsageError(f"{what}: its attribute `name` is {found.name!r}, a built-in program: choose another name")
    found(None, style="short").parts()  # fails here if the class needs other arguments
