"""Ask once more where a reply cannot be read or was cut off, and keep such replies out of DSPy's cache."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import dspy
from dspy.clients.execution import IGNORED_CACHE_KEYS, prepare
from dspy.utils.exceptions import AdapterParseError

from knowgap.errors import shorten
from knowgap.programs.replies.asking import call_predictor, lm_of
from knowgap.programs.trace.usage import Usage, UsageTracker, track_usage

__all__ = ["Reply", "ask_until_read"]

_LOG = logging.getLogger("knowgap")


class Reply(NamedTuple):
    """What a request to the language model brought.

    Attributes:
        prediction: the outputs; None if they could not be read.
        problem: why they could not be read.
        usage: all calls of the request.
    """

    prediction: dspy.Prediction | None
    problem: str
    usage: Usage


class _CallTracker(UsageTracker):
    """Counts the calls of one request, and keeps their entries, from which their keys in the cache are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Mapping[str, Any]] = []

    def append(self, entry: Mapping[str, Any]) -> None:
        super().append(entry)
        self.entries.append(entry)


def ask_until_read(predictor: dspy.Module, inputs: Mapping[str, Any]) -> Reply:
    """Call a predictor, once more if its reply cannot be read or was cut off at the limit of tokens.

    Such replies are removed from DSPy's cache, so that the second call, and the next run, reach the model. Nothing is
    repeated if the model was called twice already: DSPy asks for JSON where it cannot read a reply in the chat format.
    Of two replies, the second one counts if it can be read.

    Raises:
        LMError: the language model does not answer.
    """
    first = _ask(predictor, inputs)
    if (first.prediction is not None and not first.usage.cut) or first.usage.calls > 1:
        return first
    second = _ask(predictor, inputs)
    usage = first.usage + second.usage
    if second.prediction is None:
        return Reply(first.prediction, second.problem, usage)
    if dspy.settings.trace:  # from which an optimizer makes demonstrations
        dspy.settings.trace[:] = [call for call in dspy.settings.trace if call[2] is not first.prediction]
    return second._replace(usage=usage)


def _ask(predictor: dspy.Module, inputs: Mapping[str, Any]) -> Reply:
    tracker, prediction, problem = _CallTracker(), None, ""
    try:
        with track_usage(tracker):
            prediction = call_predictor(predictor, **inputs)
    except (AdapterParseError, ValueError, RecursionError, MemoryError) as error:
        # After a reply, these errors come from parsing it: thousands of open brackets, endless numbers. Before one,
        # something is wrong with the request itself.
        if not tracker.usage.asked:
            raise
        problem = shorten(error, 300) or type(error).__name__
        _LOG.debug("an unreadable reply: %s", error)
    if prediction is None or tracker.usage.cut:
        _remove_from_cache(lm_of(predictor, inputs), tracker.entries)
    return Reply(prediction, problem, tracker.usage)


def _remove_from_cache(lm: Any, entries: list[Mapping[str, Any]]) -> None:
    """Remove the replies of these calls, as DSPy's history describes them, from its cache in memory and on disk."""
    if not isinstance(lm, dspy.LM):
        return
    module: Any = dspy
    cache = module.cache
    for entry in entries:
        call = prepare(lm, entry["prompt"], entry["messages"], entry["kwargs"])
        if call.cache:
            key = cache.cache_key(call.key(lm, False), IGNORED_CACHE_KEYS)
            with cache._lock:
                cache.memory_cache.pop(key, None)
            cache.disk_cache.pop(key, None)
