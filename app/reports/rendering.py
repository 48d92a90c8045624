"""Rendering of the pages' templates."""

from __future__ import annotations

import functools
import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from knowgap.compiling.evaluation.metrics.retrieval import found_gold

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def render(template: str, **values: Any) -> str:
    """Render a template of this package; characters that cannot be shown or reverse text become U+FFFD.

    Args:
        template: name of a file in `templates/`. Values are escaped as HTML.
        **values: what the template shows.
    """
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
