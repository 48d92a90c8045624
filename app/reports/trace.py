"""A trace as nested HTML lists: iterations, branches, steps with what they found, and the cost below."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from knowgap.programs.trace.trace import Cost, Trace
from knowgap.programs.trace.view import describe_step
from knowgap.reports.html import el

__all__ = ["cost_line", "trace_list"]


def trace_list(trace: Trace) -> Element:
    """The steps of a trace, in the words of `describe_step`."""
    items: list[Element] = []
    iteration, branch = 0, ""
    for step in trace.steps:
        if step.iteration != iteration:
            iteration, branch = step.iteration, ""
            items.append(el("li", f"iteration {iteration}", class_="when"))
        if step.branch != branch:
            branch = step.branch
            items.append(el("li", branch or "—", class_="when"))
        headline, *details = describe_step(trace, step)
        inner = el("ul", *(el("li", line) for line in details)) if details else None
        items.append(el("li", el("span", headline, class_=step.kind), inner))
    return el("ol", *items, class_="trace")


def cost_line(cost: Cost) -> str:
    """A question's ledger in a line."""
    return (
        f"{cost.lm_calls} LM calls ({cost.cached_calls} from cache, {cost.critical_calls} in sequence), "
        f"{cost.prompt_tokens + cost.completion_tokens} tokens, {cost.retrievals} retrievals, "
        f"{cost.passages} passages read, {cost.knowledge_tokens} knowledge tokens, {cost.seconds:.2f} s"
    )
