"""Ask a predictor: at temperature 0 and for a reply of limited length, unless something else was said.

It is asked once more where a reply cannot be read.

Replies that cannot be read, or were cut off, are kept out of DSPy's cache.
"""

from __future__ import annotations

import functools
import logging
import re
import zlib
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import dspy
from dspy.clients.execution import IGNORED_CACHE_KEYS, prepare
from dspy.utils.exceptions import (
    AdapterParseError,
    ContextWindowExceededError,
    LMInvalidRequestError,
    LMUnsupportedFeatureError,
)

from knowgap.errors import shorten
from knowgap.lms.metering import (
    Usage,
    UsageTracker,
    ask_patiently,
    get_part,
    metered,
    metering,
    track_usage,
    trackers,
    unmetered,
)
from knowgap.programs.replies.adapter import adapter_in_use
from knowgap.signatures import STYLES

_LOG = logging.getLogger("knowgap")
_REFUSED: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""Settings that a model has refused, or that have cut its thoughts off: it is asked without them."""
LONGEST_REPLY, LONGEST_SHORT_REPLY = 1_000, 300
"""Tokens of a reply at most, and of one that is a short answer alone, where nobody says otherwise: a small model may
repeat itself until its window is full. A second reply may be twice as long."""
_PENALTY = {"frequency_penalty": 0.5}
"""What is sent to a model that has repeated itself up to the limit. It would spoil long lists of others."""
_SAMPLING = {"temperature", "top_p", "rollout_id", "n"}
_SHORT_STYLES = {STYLES[name] for name in ("short", "yes_no", "choice")}
_SHORT_REPLY = 200
"""Tokens; a reply that is cut off before has no room in the model's window."""
_END = 3_000
"""Characters at the end of a reply in which it would repeat itself."""
_STOP = "[[ ## completed"
"""What a reply in the chat format ends with. A small model may go on behind it, up to the limit of tokens."""


def default_sampling(lm: Any) -> dict[str, Any]:
    """What is sent to a language model that does not say how to sample: temperature 0.

    Nothing is sent to a model whose temperature is set, to OpenAI's reasoning models, which refuse 0, and to a model
    that runs in this process (a custom engine), which decodes greedily unless told otherwise.
    """
    if not isinstance(lm, dspy.LM) or not isinstance(lm.engine, str):
        return {}
    # DSPy renames `max_tokens` for OpenAI's reasoning models.
    chosen = any(lm.kwargs.get(name) is not None for name in _SAMPLING)
    return {} if chosen or "max_completion_tokens" in lm.kwargs else {"temperature": 0.0}


def default_limits(lm: Any, adapter: Any, longest: int = LONGEST_REPLY) -> dict[str, Any]:
    """What ends a reply for a language model that was not told: the mark at the end of the chat format, or its length.

    Nothing is sent to OpenAI's reasoning models, whose thoughts count. A model that runs in this process has a limit of
    its own.
    """
    if not isinstance(lm, dspy.LM) or "max_completion_tokens" in lm.kwargs:
        return {}
    limits: dict[str, Any] = {"max_tokens": longest} if isinstance(lm.engine, str) else {}
    if getattr(adapter, "form", "") == "chat" and "stop" in lm.supported_params:
        limits["stop"] = [_STOP]
    return {name: value for name, value in limits.items() if lm.kwargs.get(name) is None}


def _longest_reply(predictor: dspy.Module, inputs: Mapping[str, Any]) -> int:
    """Tokens of a reply at most: few where all that is asked for is an answer in a short style."""
    signature = getattr(predict_of(predictor), "signature", None)
    alone = signature is not None and [*signature.output_fields] == ["answer"]
    return LONGEST_SHORT_REPLY if alone and inputs.get("style") in _SHORT_STYLES else LONGEST_REPLY


def lm_of(predictor: dspy.Module, inputs: Mapping[str, Any]) -> Any:
    """The language model that answers a predictor called with these inputs."""
    return unmetered(inputs.get("lm") or getattr(predict_of(predictor), "lm", None) or dspy.settings.lm)


def predict_of(predictor: dspy.Module) -> Any:
    """A predictor itself; of another module its first predictor, or the module if it has none."""
    return predictor if isinstance(predictor, dspy.Predict) else next(iter(predictor.predictors()), predictor)


class Reply(NamedTuple):
    """What a request to the language model brought.

    Attributes:
        prediction: the outputs; None if they could not be read.
        problem: why they could not be read.
        usage: all calls of the request.
        repeats: whether a reply was cut off while it repeated itself.
    """

    prediction: dspy.Prediction | None
    problem: str
    usage: Usage
    repeats: bool = False


class _CallTracker(UsageTracker):
    """Counts the calls of one request, and keeps their entries, from which their keys in the cache are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Mapping[str, Any]] = []

    def append(self, entry: Mapping[str, Any]) -> None:
        super().append(entry)
        self.entries.append(entry)


def call_predictor(predictor: dspy.Module, **inputs: Any) -> dspy.Prediction:
    """Call a predictor under the adapter of DSPy's settings, which then reads replies as models write them.

    The calls are counted by the trackers around this one, and repeated after faults that may pass.

    Args:
        predictor: a `dspy.Predict`, or a module with one.
        **inputs: of its signature; `config` and `lm` as for `dspy.Predict`.

    Raises:
        AdapterParseError: the reply cannot be read.
        LMError: the language model does not answer.
    """
    return _call(predictor, inputs, None)


def _call(
    predictor: dspy.Module, inputs: Mapping[str, Any], tracker: UsageTracker | None, again: Reply | None = None
) -> dspy.Prediction:
    lm = lm_of(predictor, inputs)
    if not isinstance(lm, dspy.BaseLM):
        return predictor(**inputs)  # DSPy says what is wrong with it
    counting, callbacks = [tracker] if tracker else [], dspy.settings.callbacks
    if isinstance(predictor, dspy.Predict) and dspy.settings.adapter is None:
        # No other model can be called: DSPy, which takes its time for callbacks, need not look for one.
        counting += trackers()
        callbacks = [callback for callback in callbacks or () if not isinstance(callback, UsageTracker)]
    if not _takes_config(predictor):
        return _call_module(predictor, inputs, lm, tracker)
    asked = metered(lm, *counting, num_retries=0)
    given = {**inputs, "lm": asked} if "lm" in inputs or getattr(predict_of(predictor), "lm", None) else dict(inputs)
    adapter = adapter_in_use()
    said = _config_of(predictor, inputs).keys() & _SAMPLING
    added = {
        **({} if said else default_sampling(lm)),
        **_limits(lm, predictor, inputs),
        **({} if again is None else _changed(again, lm, predictor, inputs)),
    }
    refused: Collection[str] = _REFUSED.get(lm, ())
    with metering(), dspy.context(adapter=adapter, lm=asked, callbacks=callbacks):
        while True:
            added = {name: value for name, value in added.items() if name not in refused}
            chosen = {**given, "config": {**inputs.get("config", {}), **added}} if added else given
            try:
                return ask_patiently(lm, functools.partial(predictor, **chosen))
            except ContextWindowExceededError:
                if "max_tokens" not in added:
                    raise
                refused = {"max_tokens"}  # some servers want room for the longest reply
            except (LMInvalidRequestError, LMUnsupportedFeatureError) as error:
                message = re.sub("max_(completion|output)_", "max_", str(error).lower())
                if not (refused := {name for name in added if name in message}):
                    raise
                _REFUSED.setdefault(lm, set()).update(refused)


def _config_of(predictor: dspy.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What a predictor, and the call, say to the language model."""
    return {**getattr(predict_of(predictor), "config", {}), **inputs.get("config", {})}


def _limits(lm: Any, predictor: dspy.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What ends a reply where nobody says otherwise, and the model has not refused it."""
    taken = {*_config_of(predictor, inputs), *_REFUSED.get(lm, ())}
    limits = default_limits(lm, adapter_in_use(), _longest_reply(predictor, inputs))
    return {name: limit for name, limit in limits.items() if name not in taken}


def _changed(first: Reply, lm: Any, predictor: dspy.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked differently after a reply that was cut off."""
    if not first.usage.cut:
        return {}
    if first.repeats:
        return _PENALTY if isinstance(lm, dspy.LM) and _PENALTY.keys() <= lm.supported_params else {}
    limits = _limits(lm, predictor, inputs)
    return {"max_tokens": 2 * limits["max_tokens"]} if "max_tokens" in limits else {}


def _same_again(first: Reply, lm: Any, predictor: dspy.Module, inputs: Mapping[str, Any]) -> bool:
    """Whether a reply that was cut off would come again as it is: at a limit that the user set, at temperature 0."""
    if not first.usage.cut or _changed(first, lm, predictor, inputs):
        return False
    said = {**default_sampling(lm), **getattr(lm, "kwargs", {}), **_config_of(predictor, inputs)}
    return first.repeats or said.get("temperature") == 0


def _takes_config(predictor: dspy.Module) -> bool:
    """Whether a module is called with `config` and `lm`, as predictors are; others are given their inputs."""
    return isinstance(predictor, (dspy.Predict, dspy.ChainOfThought))


def _call_module(
    module: dspy.Module, inputs: Mapping[str, Any], lm: dspy.BaseLM, tracker: UsageTracker | None
) -> dspy.Prediction:
    """Call a module of any kind, whose own predictors may ask several times; DSPy repeats calls after faults."""
    with dspy.context(**module_settings(lm)), track_usage(tracker) if tracker else nullcontext():
        return module(**inputs)


def module_settings(lm: Any) -> dict[str, Any]:
    """DSPy's settings under which a module of any kind is called: how it samples, and how replies are read."""
    sampling = {} if lm is None else default_sampling(lm)
    return {"adapter": adapter_in_use(), "lm": metered(lm, **sampling)}


def ask_until_read(predictor: dspy.Module, inputs: Mapping[str, Any]) -> Reply:
    """Call a predictor, once more if its reply cannot be read or was cut off at the limit of tokens.

    The second reply may be twice as long; after one that repeated itself, the model is asked not to, if it can be. One
    that was cut off at a limit that the user set would come again as it is at temperature 0, and is not asked for.
    Such replies are removed from DSPy's cache, so that the second call, and the next run, reach the model. Nothing is
    repeated if the model was called twice already: DSPy asks for JSON where it cannot read a reply in the chat format;
    unless it was the model's thoughts that were cut off, which are not limited any more then.
    Of two replies, the second one counts if it can be read.

    Raises:
        ContextWindowExceededError: the prompt is too long, or leaves too little room for a reply.
        LMError: the language model does not answer.
    """
    refused = _refused_by(predictor, inputs)
    first = _ask(predictor, inputs)
    if first.prediction is None and _fills_window(lm_of(predictor, inputs), first.usage):
        raise ContextWindowExceededError(message="the prompt leaves too little room for a reply in the model's window")
    unbound = refused != _refused_by(predictor, inputs)  # the next reply will not be cut off in thought
    if (first.prediction is not None and not first.usage.cut) or (first.usage.calls > 1 and not unbound):
        return first
    if not unbound and _same_again(first, lm_of(predictor, inputs), predictor, inputs):
        return first
    second = _ask(predictor, inputs, first)
    usage = first.usage + second.usage
    if second.prediction is None:
        return Reply(first.prediction, second.problem, usage)
    if dspy.settings.trace:  # from which an optimizer makes demonstrations
        dspy.settings.trace[:] = [call for call in dspy.settings.trace if call[2] is not first.prediction]
    return second._replace(usage=usage)


def _refused_by(predictor: dspy.Module, inputs: Mapping[str, Any]) -> set[str]:
    lm = lm_of(predictor, inputs)
    return set() if lm is None else {*_REFUSED.get(lm, ())}


def _fills_window(lm: Any, usage: Usage) -> bool:
    """Whether a reply was cut off after a few tokens although nobody limits it so much."""
    written = usage.completion_tokens + usage.cached_completion_tokens
    return usage.cut > 0 and written < min(_SHORT_REPLY * usage.asked, lm.kwargs.get("max_tokens") or _SHORT_REPLY)


def _ask(predictor: dspy.Module, inputs: Mapping[str, Any], again: Reply | None = None) -> Reply:
    tracker, prediction, problem = _CallTracker(), None, ""
    try:
        prediction = _call(predictor, inputs, tracker, again)
    except (AdapterParseError, ValueError, RecursionError, MemoryError) as error:
        # After a reply, these errors come from parsing it: thousands of open brackets, endless numbers. Before one,
        # something is wrong with the request itself.
        if not tracker.usage.asked:
            raise
        problem = shorten(error, 300) or type(error).__name__
        _LOG.debug("an unreadable reply: %s", error)
    if prediction is not None and not tracker.usage.asked and _takes_config(predictor):
        # The model's class has a `__call__` of its own.
        around = Usage(uncounted_calls=1)
        for each in (tracker, *(trackers() if isinstance(predictor, dspy.Predict) else ())):
            each.add(around)
    if (prediction is None or len(tracker.entries) > 1) and any(map(_ends_in_thought, tracker.entries)):
        lm = lm_of(predictor, inputs)
        _REFUSED.setdefault(lm, set()).update(default_limits(lm, adapter_in_use()))
    if prediction is None or tracker.usage.cut:
        _remove_from_cache(lm_of(predictor, inputs), tracker.entries)
    repeats = tracker.usage.cut > 0 and any(map(_repeats_itself, tracker.entries))
    return Reply(prediction, problem, tracker.usage, repeats)


def _texts(entry: Mapping[str, Any]) -> list[str]:
    """The replies of a call, as DSPy's history has them."""
    return [get_part(output, "text") if isinstance(output, Mapping) else output for output in entry["outputs"] or ()]


def _repeats_itself(entry: Mapping[str, Any]) -> bool:
    """Whether a reply ends in the same words again and again: its end can be packed into a fifth."""
    ends = [(text or "")[-_END:].encode() for text in _texts(entry)]
    return any(5 * len(zlib.compress(end)) < len(end) for end in ends)


def _ends_in_thought(entry: Mapping[str, Any]) -> bool:
    """Whether a reply ended in the model's thoughts, which may name the mark at which it was stopped."""
    return any(not text or re.search(r"<think(?!.*</think)", text, re.S) for text in _texts(entry))


def _remove_from_cache(lm: Any, entries: list[Mapping[str, Any]]) -> None:
    """Remove the replies of these calls, as DSPy's history describes them, from its cache in memory and on disk."""
    if not isinstance(lm, dspy.LM):
        return
    module: Any = dspy
    for entry in entries:
        call = prepare(lm, entry["prompt"], entry["messages"], entry["kwargs"])
        if call.cache:
            module.cache.put(call.key(lm, False), None, IGNORED_CACHE_KEYS)  # DSPy takes None for no reply
