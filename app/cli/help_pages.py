"""Help pages of commands: at most 20 options each, and the others in groups with `--help-all`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, cast

from typer import Context, Exit, Option, echo
from typer.core import TyperCommand
from typer.models import OptionInfo

MOST = 20
"""Options of a help page at most, `--help` and `--help-all` included."""

_SHOW_ALL = "knowgap.show_all"


def _show_all(context: Context, wanted: bool) -> None:
    if wanted:
        context.meta[_SHOW_ALL] = True
        echo(context.get_help(), color=context.color)
        raise Exit


_HelpAll = Annotated[
    bool,
    Option("--help-all", is_eager=True, callback=_show_all, help="Show every option, in groups, and exit."),
]


def with_help_all(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command with more than `MOST` options, `--help` included, the option `--help-all`."""
    signature = inspect.signature(command, eval_str=True)
    hints = [getattr(parameter.annotation, "__metadata__", ()) for parameter in signature.parameters.values()]
    if sum(isinstance(each, OptionInfo) for metadata in hints for each in metadata) < MOST:
        return command

    @functools.wraps(command)
    def run(*args: Any, help_all: bool = False, **kwargs: Any) -> None:
        command(*args, **kwargs)

    added = inspect.Parameter("help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_HelpAll)
    cast("Any", run).__signature__ = signature.replace(parameters=[*signature.parameters.values(), added])
    return run


class Command(TyperCommand):
    """A command whose help page leaves out the options of groups (`rich_help_panel`) if it has `--help-all`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        every = self.params
        if not ctx.meta.get(_SHOW_ALL) and any(each.name == "help_all" for each in every):
            self.params = [each for each in every if not getattr(each, "rich_help_panel", None)]
        try:
            super().format_help(ctx, formatter)
        finally:
            self.params = every
