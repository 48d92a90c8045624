"""The command that says what this machine has, and what is missing: doctor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import show_table
from knowgap.errors import KnowgapError, UsageError, check_address, is_address
from knowgap.plugins import is_reference

if TYPE_CHECKING:
    from knowgap.retrieval.doctor import Finding


@o.grouped
def doctor(
    *,
    index: Annotated[
        str | None,
        Option("--index", "-i", envvar="KNOWGAP_INDEX", help="An index to look at as well: its folder, or its URL."),
    ] = None,
    model: o.ModelOptions,
) -> None:
    """Say what this machine has, what is missing for which feature, and how to get it.

    A language model that is named is asked for one word.
    """
    from knowgap.retrieval.doctor import examine, examine_index

    if index is not None and is_address(index):
        check_address(index, "--index")
    elif index is not None and is_reference(index) and not Path(index).exists():
        raise UsageError(f"--index {index}: only an index folder or the URL of an index can be checked")
    findings = [*examine(), *_examine_model(model), *(examine_index(index) if index is not None else ())]
    show_table("what this machine has", ["", "state", "found"], [[f.name, f.state, _told(f)] for f in findings])
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(2)


def _told(finding: Finding) -> str:
    """The detail of a finding; if something is missing, also what needs it and how to get it."""
    if finding.state == "ok":
        return finding.detail
    serves = f"needed for {finding.serves}" if finding.serves else ""
    return "; ".join(filter(None, (finding.detail, serves, finding.remedy)))


def _examine_model(options: o.ModelOptions) -> list[Finding]:
    """Whether the language model of the options answers, and for which providers the environment has a key."""
    from knowgap.retrieval.doctor import Finding

    keys = sorted(name for name, value in os.environ.items() if name.endswith("_API_KEY") and value)
    found = [Finding("keys", "ok", f"set: {', '.join(keys)}", "providers of language models")]
    if not keys:
        told = "no variable such as OPENAI_API_KEY is set; a server of your own needs none"
        found = [Finding("keys", "absent", told, "providers of language models")]
    name, where = "language model", f" at {options.api_base}" if options.api_base else ""
    if options.lm in (None, "extractive"):
        told = f"none is named{f', so that none is asked{where}' if where else ''}: the embedded reader answers"
        remedy = "name one with --lm openai/NAME (or KNOWGAP_LM), and a server of your own with --api-base"
        return [Finding(name, "absent", told, "answers in whole sentences, compile and questions", remedy), *found]
    try:
        lm = factories.load_lm(options)
    except KnowgapError as error:
        return [Finding(name, "broken", str(error), "answers"), *found]
    return [Finding(name, "ok", f"{lm.model} answers{where}", "answers"), *found]
