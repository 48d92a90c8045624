"""Show what a program does to whoever watches DSPy's calls, such as `mlflow.dspy.autolog()`.

DSPy tells its callbacks of the calls of modules. Each step, and each request to the language model, is told as the call
of a module that has its name; requests and searches last as long as they take, other steps are moments. Nothing happens
where DSPy has no callbacks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import dspy

from knowgap.programs.trace.steps import Step
from knowgap.retrieval.passage import Hit

__all__ = ["show_request", "show_search", "show_step"]

T = TypeVar("T")


def show_step(step: Step) -> None:
    """Tell of a step: where it belongs as inputs, what it holds as outputs."""
    if dspy.settings.callbacks:
        held = functools.partial(step.model_dump, exclude={"kind", "iteration", "branch", "at"})
        _show(dspy.Module, type(step).__name__, held, dict, iteration=step.iteration, branch=step.branch)


def show_request(name: str, place: Mapping[str, Any], request: Callable[[], T]) -> T:
    """Make a request to the language model; it is told under the name of its predictor, with the calls in it."""
    return _show(dspy.Module, name, request, lambda _: None, **place) if dspy.settings.callbacks else request()


def show_search(
    queries: Sequence[str], k: int, place: Mapping[str, Any], search: Callable[[], list[list[Hit]]]
) -> list[list[Hit]]:
    """Search; the passages are told as documents, each once."""
    if not dspy.settings.callbacks:
        return search()
    return _show(dspy.Retrieve, "Retrieved", search, _documents, queries=list(queries), k=k, **place)


def _documents(results: list[list[Hit]]) -> list[dict[str, Any]]:
    """The passages as MLflow shows what a retriever returns."""
    hits = {hit.passage.id: hit for hits in results for hit in hits}
    return [
        {"id": key, "page_content": hit.passage.text, "metadata": {"title": hit.passage.title, "score": hit.score}}
        for key, hit in hits.items()
    ]


def _show(kind: type[Any], name: str, call: Callable[[], T], shown: Callable[[T], Any], **inputs: Any) -> T:
    """Call a function as a module; `shown` makes the module's outputs from what it returns."""
    results: list[T] = []
    module = _module_class(kind, name)()

    def forward(**_: Any) -> Any:
        results.append(call())
        return shown(results[0])

    module.forward = forward
    module(**inputs)
    return results[0]


@functools.cache
def _module_class(kind: type[Any], name: str) -> type[Any]:
    return type(name, (kind,), {})
