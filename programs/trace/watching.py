"""Reports what a program does to DSPy's callbacks, such as those of `mlflow.dspy.autolog()`.

DSPy reports the calls of modules and tools to its callbacks. A search is reported as the call of a retriever; each
other step, and each request to the language model, as the call of a tool that has its name. Nothing is reported if the
only callbacks are knowgap's trackers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import dspy

from knowgap.lms.metering import UsageTracker
from knowgap.programs.trace.steps import Step
from knowgap.retrieval.passage import Hit

T = TypeVar("T")


def _watched() -> bool:
    return not all(isinstance(callback, UsageTracker) for callback in dspy.settings.callbacks or ())


def show_step(step: Step) -> None:
    """Report a step: its iteration and branch as inputs, its fields as outputs."""
    if _watched():
        held = step.model_dump(exclude={"kind", "iteration", "branch", "at"})
        dspy.Tool(lambda **_: held, name=type(step).__name__)(iteration=step.iteration, branch=step.branch)


def show_request(name: str, place: Mapping[str, Any], request: Callable[[], T]) -> T:
    """Make a request to the language model; report it, with the calls in it, under the name of its predictor."""
    if not _watched():
        return request()
    results: list[T] = []
    dspy.Tool(lambda **_: results.append(request()), name=name)(**place)
    return results[0]


class Retrieved(dspy.Retrieve):
    """A search of a program, reported under the name of its step."""

    def __init__(self, search: Callable[[], list[list[Hit]]]):
        super().__init__()
        self.search, self.results = search, list[list[Hit]]()

    def forward(self, *_: Any, **__: Any) -> Any:
        """Search, and return each passage once, in the form in which MLflow shows documents."""
        self.results = self.search()
        hits = {hit.passage.id: hit for hits in self.results for hit in hits}
        return [
            {"id": key, "page_content": hit.passage.text, "metadata": {"title": hit.passage.title, "score": hit.score}}
            for key, hit in hits.items()
        ]


def show_search(
    queries: Sequence[str], k: int, place: Mapping[str, Any], search: Callable[[], list[list[Hit]]]
) -> list[list[Hit]]:
    """Search, and report the passages as documents."""
    if not _watched():
        return search()
    shown = Retrieved(search)
    shown(queries=list(queries), k=k, **place)
    return shown.results
