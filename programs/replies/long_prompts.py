"""Shortens prompts that exceed the context window of a language model."""

from __future__ import annotations

import functools
import logging
from typing import Any

import dspy

from knowgap.programs.trace.steps import Shortened
from knowgap.retrieval.passage import Passage

_LOG = logging.getLogger("knowgap")


def without_last(predictor: dspy.Module, inputs: dict[str, Any], shortened: Shortened) -> dict[str, Any] | None:
    """The inputs without the last demonstration, or else without the last passage; None if there is neither.

    The passage comes from the longest list, which keeps at least one. `shortened` records what is left out.
    """
    if isinstance(predictor, dspy.Predict) and (demos := inputs.get("demos", predictor.demos)):
        shortened.demonstrations += 1
        return {**inputs, "demos": demos[:-1]}
    lists = [
        name
        for name, value in inputs.items()
        if isinstance(value, list) and len(value) > 1 and isinstance(value[-1], Passage)
    ]
    if not lists:
        return None
    longest = max(lists, key=lambda name: len(inputs[name]))
    shortened.passages.append(inputs[longest][-1].id)
    return {**inputs, longest: inputs[longest][:-1]}


@functools.cache
def warn_of_window(model: str, program: str, act: str) -> None:
    """Warn, once for each act of a program, that its prompts are shortened."""
    _LOG.warning(
        "a prompt of %s (%s) is longer than the context window of %r: the last demonstrations, then the last passages, "
        "are left out; the trace lists them",
        program,
        act,
        model,
    )
