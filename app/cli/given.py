"""Which options the command line gives: groups of options as parameters of a command, and none ignored in silence.

A command refuses at its start what it would take no notice of, with `refuse`. What slips through is named at its end:
`grouped` knows which options were given, and the groups which of their fields were read.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from typing import Any, cast, get_type_hints

from typer import Context

from knowgap.cli.display import remark
from knowgap.errors import UsageError

__all__ = ["OptionGroup", "grouped", "is_default", "refuse"]

_context: ContextVar[Context | None] = ContextVar("context", default=None)


class OptionGroup:
    """The base of groups of options, which are dataclasses; it remembers which fields are read."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            vars(self).setdefault("_read", set()).add(name)
        return super().__getattribute__(name)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options, and say at its end which of the given ones it never looked at.

    A parameter whose type is a dataclass stands for the dataclass's fields, in their order. The parameters are
    keyword-only, since a group, which has no default, may follow options, which have one.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: p.annotation for name, p in signature.parameters.items() if is_dataclass(p.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name not in groups:
            parameters.append(parameter)
            continue
        hints = get_type_hints(groups[name], include_extras=True)
        parameters += [
            parameter.replace(name=field.name, default=field.default, annotation=hints[field.name])
            for field in fields(groups[name])
        ]
    own_context = "context" in signature.parameters
    if not own_context:
        parameters.append(inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=Context))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        context: Context = values["context"] if own_context else values.pop("context")
        made = {name: group(**{f.name: values.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
        token = _context.set(context)
        try:
            command(**values, **made)
            _name_unread(made.values())
        finally:
            _context.reset(token)

    cast("Any", run).__signature__ = signature.replace(parameters=parameters)
    return run


def is_default(name: str) -> bool:
    """Whether neither the command line nor the environment sets the option of a parameter.

    False outside of a command, where whoever makes a group of options chooses its values.
    """
    context = _context.get()
    return context is not None and _source(context, name) == "DEFAULT"


def refuse(names: Iterable[str], reason: str) -> None:
    """Refuse options that the command would take no notice of, if they stand on the command line.

    A variable of the environment is a default for many commands and is not refused.

    Args:
        names: of the command's parameters.
        reason: why the option is of no use here, and what to do.

    Raises:
        UsageError: one of them is given.
    """
    context = _context.get()
    for name in names if context is not None else ():
        if _source(context, name) == "COMMANDLINE":
            raise UsageError(f"{_written(context, name)}: {reason}")


def _name_unread(groups: Iterable[Any]) -> None:
    """Say which options on the command line the command has not read."""
    context = _context.get()
    unread = [
        _written(context, field.name)
        for group in groups
        if isinstance(group, OptionGroup)
        for field in fields(cast("Any", group))
        if _source(context, field.name) == "COMMANDLINE" and field.name not in vars(group).get("_read", ())
    ]
    if unread:
        remark(f"without effect on this run: {', '.join(unread)}")


def _source(context: Any, name: str) -> str:
    source = context.get_parameter_source(name)
    return source.name if source is not None else ""


def _written(context: Any, name: str) -> str:
    """An option with its value, as it is written on a command line."""
    parameter, value = next(p for p in context.command.params if p.name == name), context.params[name]
    if isinstance(value, bool):
        return (parameter.opts if value or not parameter.secondary_opts else parameter.secondary_opts)[0]
    value = value[0] if isinstance(value, (list, tuple)) and value else value
    return f"{parameter.opts[0]} {value}"
