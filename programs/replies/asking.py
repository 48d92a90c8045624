"""Asks a predictor, by default at temperature 0 and for a reply of limited length.

If a reply cannot be read, or was cut off, it is requested once more, and kept out of DSPy's cache.
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
    track_usage,
    unmetered,
)
from knowgap.programs.replies.adapter import adapter_in_use
from knowgap.signatures import STYLES

_LOG = logging.getLogger("knowgap")
_REFUSED: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""Options that a model has refused, or that cut off its thoughts, and that later requests leave out."""
LONGEST_REPLY, LONGEST_SHORT_REPLY = 1_000, 300
"""The default limits in tokens of a reply, and of one that is only a short answer: otherwise, a small model may repeat
itself until its context window is full. A second reply may be twice as long."""
_PENALTY = {"frequency_penalty": 0.5}
"""The option for a model that has repeated itself up to the limit. It would spoil long lists in other replies."""
_SAMPLING = {"temperature", "top_p", "rollout_id", "n"}
_SHORT_STYLES = {STYLES[name] for name in ("short", "yes_no", "choice")}
_SHORT_REPLY = 200
"""Tokens; if a reply is cut off before this many, the prompt leaves too little of the model's context window."""
_END = 3_000
"""Characters at the end of a reply that are checked for repetition."""
_STOP = "[[ ## completed"
"""The stop text of the chat format. Without it, a small model may continue after the end, up to the limit of tokens."""


def default_sampling(lm: Any) -> dict[str, Any]:
    """The sampling options for a language model that sets none itself: temperature 0.

    Empty for OpenAI's reasoning models, which refuse 0, and for a model that runs in this process (a custom engine),
    which decodes greedily by default.
    """
    if not isinstance(lm, dspy.LM) or not isinstance(lm.engine, str):
        return {}
    # DSPy renames `max_tokens` for OpenAI's reasoning models.
    chosen = any(lm.kwargs.get(name) is not None for name in _SAMPLING)
    return {} if chosen or "max_completion_tokens" in lm.kwargs else {"temperature": 0.0}


def default_limits(lm: Any, adapter: Any, longest: int = LONGEST_REPLY) -> dict[str, Any]:
    """The options that end a reply, unless the model sets them: a stop text (chat format only), and a length in tokens.

    Empty for OpenAI's reasoning models, whose thoughts count as output. A model that runs in this process has a length
    limit of its own.
    """
    if not isinstance(lm, dspy.LM) or "max_completion_tokens" in lm.kwargs:
        return {}
    limits: dict[str, Any] = {"max_tokens": longest} if isinstance(lm.engine, str) else {}
    if getattr(adapter, "form", "") == "chat" and "stop" in lm.supported_params:
        limits["stop"] = [_STOP]
    return {name: value for name, value in limits.items() if lm.kwargs.get(name) is None}


def _longest_reply(predictor: dspy.Module, inputs: Mapping[str, Any]) -> int:
    """The default limit in tokens of a reply: lower if only an answer in a short style is requested."""
    signature = getattr(predict_of(predictor), "signature", None)
    alone = signature is not None and [*signature.output_fields] == ["answer"]
    return LONGEST_SHORT_REPLY if alone and inputs.get("style") in _SHORT_STYLES else LONGEST_REPLY


def lm_of(predictor: dspy.Module, inputs: Mapping[str, Any]) -> Any:
    """The language model that answers a predictor called with these inputs."""
    return unmetered(inputs.get("lm") or getattr(predict_of(predictor), "lm", None) or dspy.settings.lm)


def predict_of(predictor: dspy.Module) -> Any:
    """The predictor itself; for another module, its first predictor, or the module if it has none."""
    return predictor if isinstance(predictor, dspy.Predict) else next(iter(predictor.predictors()), predictor)


class Reply(NamedTuple):
    """The result of a request to the language model.

    Attributes:
        prediction: the outputs; None if they could not be read.
        problem: why they could not be read.
        usage: the usage of all calls of the request.
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
    """Call a `dspy.Predict`, or a module with one, with the lenient version of the adapter in DSPy's settings.

    The active trackers count the calls. A call is repeated after transient faults.

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
    if not isinstance(predictor, (dspy.Predict, dspy.ChainOfThought)):
        # Other modules take only their inputs. Their own predictors may ask several times; DSPy repeats their calls.
        with dspy.context(**module_settings(lm)), track_usage(tracker) if tracker else nullcontext():
            return predictor(**inputs)
    asked, adapter = metered(lm, num_retries=0), adapter_in_use()
    given = {**inputs, "lm": asked} if "lm" in inputs or getattr(predict_of(predictor), "lm", None) else dict(inputs)
    said = _config_of(predictor, inputs).keys() & _SAMPLING
    added = {
        **({} if said else default_sampling(lm)),
        **_limits(lm, predictor, inputs),
        **({} if again is None else _changed(again, lm, predictor, inputs)),
    }
    refused: Collection[str] = _REFUSED.get(lm, ())
    given_up = set[str]()
    with track_usage(tracker or UsageTracker()), dspy.context(adapter=adapter, lm=asked):
        while True:
            added = {name: value for name, value in added.items() if name not in refused}
            chosen = {**given, "config": {**inputs.get("config", {}), **added}} if added else given
            try:
                prediction = ask_patiently(lm, functools.partial(predictor, **chosen))
                break
            except ContextWindowExceededError:
                if "max_tokens" not in added:
                    raise
                refused = {"max_tokens"}  # some servers reserve tokens for the longest reply
            except (LMInvalidRequestError, LMUnsupportedFeatureError) as error:
                message = re.sub("max_(completion|output)_", "max_", str(error).lower())
                if not (refused := {name for name in added if name in message}):
                    # Something else is wrong: the message named the options only because it repeats the request.
                    _REFUSED.get(lm, set[str]()).difference_update(given_up)
                    raise
                given_up |= refused
                _REFUSED.setdefault(lm, set()).update(refused)
    return prediction


def _config_of(predictor: dspy.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a predictor and a call set for the language model."""
    return {**getattr(predict_of(predictor), "config", {}), **inputs.get("config", {})}


def _limits(lm: Any, predictor: dspy.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The default limits that neither the predictor nor the call sets, and that the model has not refused."""
    taken = {*_config_of(predictor, inputs), *_REFUSED.get(lm, ())}
    limits = default_limits(lm, adapter_in_use(), _longest_reply(predictor, inputs))
    return {name: limit for name, limit in limits.items() if name not in taken}


def _changed(first: Reply, lm: Any, predictor: dspy.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The options to change after a reply that was cut off."""
    if not first.usage.cut:
        return {}
    if first.repeats:
        return _PENALTY if isinstance(lm, dspy.LM) and _PENALTY.keys() <= lm.supported_params else {}
    limits = _limits(lm, predictor, inputs)
    return {"max_tokens": 2 * limits["max_tokens"]} if "max_tokens" in limits else {}


def _same_again(first: Reply, lm: Any, predictor: dspy.Module, inputs: Mapping[str, Any]) -> bool:
    """Whether a second reply would be cut off as well: no option can change, and it loops or the temperature is 0.

    knowgap's engines decode greedily unless a temperature is set.
    """
    if not first.usage.cut or _changed(first, lm, predictor, inputs):
        return False
    said = {**default_sampling(lm), **getattr(lm, "kwargs", {}), **_config_of(predictor, inputs)}
    temperature = said.get("temperature")
    greedy = temperature is None and getattr(getattr(lm, "engine", None), "greedy", False)
    return first.repeats or greedy or temperature == 0


def module_settings(lm: Any) -> dict[str, Any]:
    """DSPy's settings for calling a module of any kind: the lenient adapter, and a metered model."""
    sampling = {} if lm is None else default_sampling(lm)
    return {"adapter": adapter_in_use(), "lm": metered(lm, **sampling)}


def ask_until_read(predictor: dspy.Module, inputs: Mapping[str, Any]) -> Reply:
    """Call a predictor; call it once more if its reply cannot be read or was cut off at the limit of tokens.

    The second reply may be twice as long; if the first one repeated itself, a penalty is set instead, if the model
    takes one. Unreadable and cut-off replies are removed from DSPy's cache, so that the second call, and the next run,
    reach the model. The second reply counts if it can be read.

    There is no second call if the reply would be cut off again: at temperature 0, at a limit that the user set. Nor is
    there one if the first request took two calls, since DSPy asks for JSON if it cannot read a reply in the chat
    format; but if the model's thoughts were cut off, they are no longer limited, and the second call is made.

    Raises:
        ContextWindowExceededError: the prompt is too long, or leaves too few tokens for a reply.
        LMError: the language model does not answer.
    """
    lm = lm_of(predictor, inputs)
    refused = _refused_by(lm)
    first = _ask(predictor, inputs)
    if first.prediction is None and _fills_window(lm, first.usage):
        raise ContextWindowExceededError(message="the prompt leaves too little room for a reply in the model's window")
    unbound = refused != _refused_by(lm)  # the next reply's thoughts are not limited
    if (first.prediction is not None and not first.usage.cut) or (first.usage.answered > 1 and not unbound):
        return first
    if not unbound and _same_again(first, lm, predictor, inputs):
        return first
    second = _ask(predictor, inputs, first)
    usage = first.usage + second.usage
    if second.prediction is None:
        return Reply(first.prediction, second.problem, usage)
    if dspy.settings.trace:  # from which an optimizer makes demonstrations
        dspy.settings.trace[:] = [call for call in dspy.settings.trace if call[2] is not first.prediction]
    return second._replace(usage=usage)


def _refused_by(lm: Any) -> set[str]:
    return {*_REFUSED.get(lm, ())} if isinstance(lm, dspy.BaseLM) else set()


def _fills_window(lm: Any, usage: Usage) -> bool:
    """Whether a reply was cut off after so few tokens that the prompt must fill the context window.

    That is unknown if the server reports no tokens.
    """
    written = usage.completion_tokens + usage.cached_completion_tokens
    reported = written + usage.prompt_tokens + usage.cached_prompt_tokens > 0
    few = min(_SHORT_REPLY * usage.answered, lm.kwargs.get("max_tokens") or _SHORT_REPLY)
    return usage.cut > 0 and reported and written < few


def _ask(predictor: dspy.Module, inputs: Mapping[str, Any], again: Reply | None = None) -> Reply:
    tracker, prediction, problem = _CallTracker(), None, ""
    try:
        prediction = _call(predictor, inputs, tracker, again)
    except (AdapterParseError, ValueError, RecursionError, MemoryError) as error:
        # After a reply, these errors come from parsing it: thousands of open brackets, endless numbers. Before one,
        # something is wrong with the request itself.
        if not tracker.usage.answered:
            raise
        problem = shorten(error, 300) or type(error).__name__
        _LOG.debug("an unreadable reply: %s", error)
    lm = lm_of(predictor, inputs)
    if (prediction is None or len(tracker.entries) > 1) and any(map(_ends_in_thought, tracker.entries)):
        _REFUSED.setdefault(lm, set()).update(default_limits(lm, adapter_in_use()))
    if prediction is None or tracker.usage.cut:
        _remove_from_cache(lm, tracker.entries)
    repeats = tracker.usage.cut > 0 and any(map(_repeats_itself, tracker.entries))
    return Reply(prediction, problem, tracker.usage, repeats)


def _texts(entry: Mapping[str, Any]) -> list[str]:
    """The texts of a call's replies, from its entry in DSPy's history."""
    return [get_part(output, "text") if isinstance(output, Mapping) else output for output in entry["outputs"] or ()]


def _repeats_itself(entry: Mapping[str, Any]) -> bool:
    """Whether the end of a reply repeats itself, which it does if it can be compressed to less than a fifth."""
    ends = [(text or "")[-_END:].encode() for text in _texts(entry)]
    return any(5 * len(zlib.compress(end)) < len(end) for end in ends)


def _ends_in_thought(entry: Mapping[str, Any]) -> bool:
    """Whether a reply ended within the model's thoughts, which may contain the stop text.

    An empty reply did, since servers leave thoughts out, unless it has a single token: the one that ends a reply.
    """
    hidden = get_part(entry.get("usage"), "completion_tokens") != 1
    return any(re.search(r"<think(?!.*</think)", text, re.S) if text else hidden for text in _texts(entry))


def _remove_from_cache(lm: Any, entries: list[Mapping[str, Any]]) -> None:
    """Remove the replies of these calls, as DSPy's history describes them, from its cache in memory and on disk."""
    if not isinstance(lm, dspy.LM):
        return
    module: Any = dspy
    for entry in entries:
        call = prepare(lm, entry["prompt"], entry["messages"], entry["kwargs"])
        if call.cache:
            module.cache.put(call.key(lm, False), None, IGNORED_CACHE_KEYS)  # DSPy takes None for no reply
