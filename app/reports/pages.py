"""Pages for the browser: evaluations, and questions to look through; each holds all its data and loads nothing."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from knowgap.compiling.evaluation.metrics.retrieval import found_gold
from knowgap.compiling.evaluation.provenance import Provenance
from knowgap.compiling.questions.author import KINDS, Draft
from knowgap.reports.evaluations import Source, group_evaluations, read_evaluations
from knowgap.storage.files import write_file

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def render_report(source: Source) -> str:
    """Render evaluations as an HTML page.

    Args:
        source: the result of `evaluate`, or a folder that `knowgap compile` or `eval` wrote. Others are compared with
            the first, or with one that has "before" in its label.

    Raises:
        UsageError: there are no evaluations at that place.
        DataError: its file of evaluations holds something else.
    """
    evaluations = read_evaluations(source)
    names = list(dict.fromkeys(e.provenance.program or label for label, e in evaluations.items()))
    return _render(
        "evaluation.html.jinja",
        title=f"Evaluation of {', '.join(names)}",
        origin=next((e.provenance for e in evaluations.values()), Provenance()),
        groups=group_evaluations(evaluations),
    )


def write_questions_page(drafts: Sequence[Draft], path: str | Path) -> Path:
    """Write a page on which questions can be struck out to a file in one step, and return its path.

    The browser saves the others under the name of the page with `-kept.jsonl`.
    """
    path = Path(path)
    script = files("knowgap.reports").joinpath("templates/questions.js").read_text(encoding="utf-8")
    page = _render(
        "questions.html.jinja",
        title=f"{len(drafts)} questions to look through",
        drafts=drafts,
        kinds=KINDS,
        file_name=f"{path.stem}-kept.jsonl",
        lines=[[draft.id, draft.to_line()] for draft in drafts],
        script=Markup(script),
        script_digest=f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}",
    )
    return write_file(path, page)


def _render(template: str, **values: Any) -> str:
    """Render a template, with values escaped as HTML; characters that cannot be shown or reverse text become U+FFFD."""
    page = _environment().get_template(template).render(contents=[], **values)
    return _UNPRINTABLE.sub("\ufffd", page).lstrip()


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("knowgap.reports"),
        autoescape=True,
        extensions=["jinja2.ext.do"],
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"found_gold": found_gold}
    environment.filters |= {
        "two_digits": lambda score: "–" if score is None else f"{score:.2f}",
        "words": lambda name: re.sub(r"\blm\b", "LM", (name.partition(":")[2] or name).replace("_", " ")),
    }
    return environment
