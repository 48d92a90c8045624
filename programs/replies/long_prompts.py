"""Shortens prompts that exceed the context window of a language model."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

import dspy

from knowgap.programs.trace.steps import Shortened
from knowgap.retrieval.passage import Passage

_LOG = logging.getLogger("knowgap")


def without_last(
    predictor: dspy.Module, inputs: dict[str, Any], inlined: Sequence[Passage], shortened: Shortened
) -> tuple[dict[str, Any], Sequence[Passage]] | None:
    """The inputs and the inlined passages without the last demonstration, or else passage; None if there is neither.

    The passage comes from the longest list, which keeps at least one, or else from a text that begins with something
    else. The step `shortened` records what is left out.
    """
    own = predictor.predict if isinstance(predictor, dspy.ChainOfThought) else predictor
    if isinstance(own, dspy.Predict) and (demos := inputs.get("demos", own.demos)):
        shortened.demonstrations += 1
        return {**inputs, "demos": demos[:-1]}, inlined
    lists = [
        name
        for name, value in inputs.items()
        if isinstance(value, list) and len(value) > 1 and isinstance(value[-1], Passage)
    ]
    if lists:
        longest = max(lists, key=lambda name: len(inputs[name]))
        shortened.passages.append(inputs[longest][-1].id)
        return {**inputs, longest: inputs[longest][:-1]}, inlined
    for name, value in inputs.items() if inlined else ():
        before, found, after = value.rpartition(f"\n{inlined[-1]}") if isinstance(value, str) else ("", "", "")
        if found:
            shortened.passages.append(inlined[-1].id)
            return {**inputs, name: before + after}, inlined[:-1]
    return None


@functools.cache
def warn_of_window(model: str, program: str, act: str) -> None:
    """Warn, once for each act of a program, that its prompts are shortened."""
    _LOG.warning(
        "a prompt of %s (%s) is longer than the context window of %r: the last demonstrations, then passages, "
        "are left out; the trace lists them",
        program,
        act,
        model,
    )
