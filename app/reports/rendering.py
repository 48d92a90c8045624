"""Rendering of the pages' templates, and formatting of figures."""

from __future__ import annotations

import functools
import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from knowgap.compiling.evaluation.metrics.retrieval import found_gold
from knowgap.compiling.evaluation.statistics import Comparison, few_questions, undecidable
from knowgap.programs.trace.trace import describe_step

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LATEX: dict[str, str] = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "–": "--", "±": r"$\pm$", "≠": r"$\neq$"},
}


def render(template: str, **values: Any) -> str:
    """Render a template of this package; characters that cannot be shown or reverse text become U+FFFD.

    Args:
        template: name of a file in `templates/`. Values are escaped as HTML in all but `*.md.jinja` and `*.tex.jinja`.
        **values: what the template shows.
    """
    page = _environment().get_template(template).render(contents=[], **values)
    return _UNPRINTABLE.sub("\ufffd", page).lstrip()


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("knowgap.reports"),
        autoescape=select_autoescape(disabled_extensions=("md.jinja", "tex.jinja"), default=True),
        extensions=["jinja2.ext.do"],
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    functions = describe_step, few_questions, found_gold, undecidable
    environment.globals |= {function.__name__: function for function in functions}
    environment.filters |= {
        "amount": format_amount,
        "count": "{:,}".format,
        "gain": format_gain,
        "latex": lambda text: str(text).translate(str.maketrans(_LATEX)),
        "md": lambda text: text.replace("|", "\\|").replace("<", "&lt;"),
        "p": format_p,
        "points": lambda c: "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * x for x in (c.difference, c.low, c.high))),
        "percent": "{:.0%}".format,
        "score": "{:.3f}".format,
        "two_digits": lambda score: "–" if score is None else f"{score:.2f}",
        "words": in_words,
    }
    return environment


def format_p(value: float) -> str:
    """Format a p-value; one below 0.001 as "< 0.001"."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def format_setting(value: Any) -> str:
    """Format a hyperparameter's value."""
    return f"{value:.4g}" if isinstance(value, float) else "none" if value is None else str(value)


def in_words(name: str) -> str:
    """Spell out the name of a metric or cost: "exact match" for `exact_match`, "LM calls" for `lm_calls`."""
    return re.sub(r"\blm\b", "LM", (name.partition(":")[2] or name).replace("_", " "))


def format_gain(comparison: Comparison) -> str:
    """Format a difference with its 95% interval."""
    return f"{comparison.difference:+.3f} [{comparison.low:+.3f}, {comparison.high:+.3f}]"


def format_amount(value: float | None) -> str:
    """Format a cost per question with three significant digits, or whole from 1,000 on; "?" if it is not known."""
    if value is None:
        return "?"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
