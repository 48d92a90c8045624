"""Show what a program does to whoever watches DSPy's calls, such as `mlflow.dspy.autolog()`.

DSPy tells its callbacks of the calls of modules and tools. A search is shown as the call of a retriever. Each other
step, and each request to the language model, is shown as the call of a tool that has its name. Requests and searches
last as long as they take, other steps are moments. Nothing happens where nobody watches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import dspy

from knowgap.lms.metering import UsageTracker
from knowgap.programs.trace.steps import Step
from knowgap.retrieval.passage import Hit

T = TypeVar("T")


def show_step(step: Step) -> None:
    """Tell of a step: where it belongs as inputs, what it holds as outputs."""
    if _watched():
        held = functools.partial(step.model_dump, exclude={"kind", "iteration", "branch", "at"})
        _as_tool(type(step).__name__, held, dict, iteration=step.iteration, branch=step.branch)


def show_request(name: str, place: Mapping[str, Any], request: Callable[[], T]) -> T:
    """Make a request to the language model; it is told under the name of its predictor, with the calls in it."""
    return _as_tool(name, request, lambda _: None, **place) if _watched() else request()


def show_search(
    queries: Sequence[str], k: int, place: Mapping[str, Any], search: Callable[[], list[list[Hit]]]
) -> list[list[Hit]]:
    """Search; the passages are told as documents, each once."""
    if not _watched():
        return search()
    shown = Retrieved(search)
    shown(queries=list(queries), k=k, **place)
    return shown.results


class Retrieved(dspy.Retrieve):
    """A search of a program, told under the name of its step."""

    def __init__(self, search: Callable[[], list[list[Hit]]]):
        super().__init__()
        self.search, self.results = search, list[list[Hit]]()

    def forward(self, *_: Any, **__: Any) -> Any:
        """Search, and return the passages as MLflow shows what a retriever returns."""
        self.results = self.search()
        hits = {hit.passage.id: hit for hits in self.results for hit in hits}
        return [
            {"id": key, "page_content": hit.passage.text, "metadata": {"title": hit.passage.title, "score": hit.score}}
            for key, hit in hits.items()
        ]


def _watched() -> bool:
    return not all(isinstance(callback, UsageTracker) for callback in dspy.settings.callbacks or ())


def _as_tool(name: str, call: Callable[[], T], shown: Callable[[T], Any], **inputs: Any) -> T:
    """Call a function as a tool; `shown` makes the tool's outputs from what it returns."""
    results: list[T] = []

    def run(**_: Any) -> Any:
        results.append(call())
        return shown(results[0])

    dspy.Tool(run, name=name)(**inputs)
    return results[0]
