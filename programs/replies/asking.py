"""Asks a predictor, by default at temperature 0 and for a reply of limited length.

A reply that cannot be read, or was cut off, is requested once more. A prompt that is too long can be shortened.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import dspy
from dspy.utils import exceptions

from knowgap.errors import UsageError, shorten
from knowgap.lms.metering import Usage, UsageTracker, ask_patiently, track_usage
from knowgap.programs.logprobs import set_tokens_aside
from knowgap.programs.replies.adapter import LenientChatAdapter, adapter_in_use
from knowgap.programs.replies.text import without_surrogates
from knowgap.programs.trace.steps import Shortened
from knowgap.retrieval.passage import Passage
from knowgap.signatures import STYLES

_REFUSED: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""Options that a model has refused, or that cut off its thoughts, and that later requests leave out."""
LONGEST_REPLY, LONGEST_SHORT_REPLY = 1_000, 300
"""The default limits in tokens of a reply, and of one that is only a short answer: otherwise, a small model may repeat
itself until its context window is full."""
_PENALTY = {"frequency_penalty": 0.5}
"""The option for a model that has repeated itself up to the limit. It would spoil long lists in other replies."""
_SAMPLING = {"temperature", "top_p", "rollout_id", "n"}
_SHORT_STYLES = {STYLES[name] for name in ("short", "yes_no", "choice")}
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


def default_limits(lm: Any, predictor: dspy.Module, style: Any = None) -> dict[str, Any]:
    """The options that end a reply, unless the model sets them: a stop text (chat format only), and a length in tokens.

    The length is lower if only an answer in a short style is requested. Empty for OpenAI's reasoning models, whose
    thoughts count as output. A model that runs in this process has a length limit of its own.
    """
    if not isinstance(lm, dspy.LM) or "max_completion_tokens" in lm.kwargs:
        return {}
    short = [*predict_of(predictor).signature.output_fields] == ["answer"] and style in _SHORT_STYLES
    limits: dict[str, Any] = {}
    if isinstance(lm.engine, str):
        limits["max_tokens"] = LONGEST_SHORT_REPLY if short else LONGEST_REPLY
    if type(adapter_in_use()) is LenientChatAdapter and "stop" in lm.supported_params:
        limits["stop"] = [_STOP]
    return {name: value for name, value in limits.items() if lm.kwargs.get(name) is None}


def predict_of(predictor: Any) -> Any:
    """The `dspy.Predict` of a predictor, which may be a `dspy.ChainOfThought`."""
    return predictor.predict if isinstance(predictor, dspy.ChainOfThought) else predictor


def lm_of(predictor: dspy.Module, inputs: Mapping[str, Any]) -> Any:
    """The language model that answers a predictor called with these inputs."""
    return inputs.get("lm") or getattr(predict_of(predictor), "lm", None) or dspy.settings.lm


class Reply(NamedTuple):
    """The result of a request to the language model.

    Attributes:
        prediction: the outputs; None if they could not be read.
        problem: why they could not be read.
        usage: the usage of all calls of the request; a reply that was cut off counts as that if it was used, or none
            could be read.
        text: the reply, as far as it is known.
    """

    prediction: dspy.Prediction | None
    problem: str
    usage: Usage
    text: str = ""


def ask_until_read(predictor: dspy.Module, inputs: Mapping[str, Any]) -> Reply:
    """Call a predictor with the lenient version of the adapter in DSPy's settings; another module is called once.

    A call is repeated after transient faults. If a reply cannot be read in the chat format, JSON is asked for. If it
    was cut off at the default limit of tokens, a second one may be twice as long, or ten times if nothing was read; if
    it repeated itself, a penalty is set instead, if the model takes one. The second reply counts if it can be read; if
    the first could not, since the model was still thinking, later ones are not limited. There is no second one at a
    limit that the user set.

    Raises:
        ContextWindowExceededError: the prompt is too long.
        LMError: the language model does not answer.
        UsageError: no language model is set.
    """
    if not isinstance(predictor, (dspy.Predict, dspy.ChainOfThought)):  # it asks in its own way
        with track_usage(UsageTracker()) as tracker, dspy.context(adapter=adapter_in_use()):
            return Reply(predictor(**inputs), "", tracker.usage)
    lm = lm_of(predictor, inputs)
    if not isinstance(lm, dspy.BaseLM):
        raise UsageError(f"the language model is {lm!r:.80}: set one with dspy.configure(lm=…) or dspy.context(lm=…)")
    own = {**predict_of(predictor).config, **inputs.get("config", {})}
    limits = default_limits(lm, predictor, inputs.get("style"))
    limits = {name: limit for name, limit in limits.items() if name not in {*own, *_REFUSED.get(lm, ())}}
    options = limits if own.keys() & _SAMPLING else {**default_sampling(lm), **limits}
    first = _ask(predictor, inputs, lm, options)
    if (changed := _changes(first, lm, limits)) is None:
        return first
    second = _ask(predictor, inputs, lm, {**options, **changed})
    usage = first.usage + second.usage
    if second.prediction is None:
        return Reply(first.prediction, second.problem, usage)
    usage = usage.model_copy(update={"cut": second.usage.cut})
    if first.prediction is None and first.usage.cut and "max_tokens" in changed:
        _REFUSED.setdefault(lm, set()).update(limits)  # it thinks before it answers
    if dspy.settings.trace:  # from which an optimizer makes demonstrations
        dspy.settings.trace[:] = [call for call in dspy.settings.trace if call[2] is not first.prediction]
    return second._replace(usage=usage)


def _changes(first: Reply, lm: Any, limits: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The options to change for a second request, after one with these limits; None if it would be of no use."""
    unread = first.prediction is None
    if not first.usage.cut:
        asked_for_json = first.usage.answered > 1
        return {"cache": False} if unread and not asked_for_json else None
    end = first.text[-3_000:].encode(errors="replace")
    if 5 * len(zlib.compress(end)) < len(end):  # it repeats itself
        return _PENALTY if isinstance(lm, dspy.LM) and _PENALTY.keys() <= lm.supported_params else None
    if (limit := limits.get("max_tokens")) is None:
        return None
    return {"max_tokens": 10 * limit, "stop": None} if unread else {"max_tokens": 2 * limit}


def _ask(predictor: dspy.Module, inputs: Mapping[str, Any], lm: Any, options: dict[str, Any]) -> Reply:
    """The result of one request.

    Options that the model refuses are left out, log-probabilities first; they are remembered if it then answers.
    """
    tracker, options = UsageTracker(), {**inputs.get("config", {}), **options}
    refused = {*_REFUSED.get(lm, ())}
    with track_usage(tracker), dspy.context(adapter=adapter_in_use()):
        while True:
            options = {name: value for name, value in options.items() if name not in refused}
            try:
                prediction = ask_patiently(lm, functools.partial(predictor, **{**inputs, "config": options}))
                _REFUSED.setdefault(lm, set()).update(refused)
                set_tokens_aside(prediction)
                return Reply(prediction, "", tracker.usage, "\n".join(map(str, prediction.values())))
            except exceptions.ContextWindowExceededError:
                if options.pop("max_tokens", None) is None:  # some servers reserve tokens for the longest reply
                    raise
            except (exceptions.LMInvalidRequestError, exceptions.LMUnsupportedFeatureError) as error:
                message = str(error).lower()
                named = {name for name in options if name.removeprefix("max_") in message}
                if not (new := {"logprobs"} & options.keys() or named):  # a refusal may repeat the whole request
                    raise
                refused |= new
            except (exceptions.AdapterParseError, ValueError) as error:
                # After a reply, these errors come from parsing it. Before one, something is wrong with the request.
                if not tracker.usage.answered:
                    raise
                problem = without_surrogates(shorten(error, 300)) or type(error).__name__
                return Reply(None, problem, tracker.usage, getattr(error, "lm_response", "") or "")


def without_last(predictor: dspy.Module, inputs: dict[str, Any], shortened: Shortened) -> dict[str, Any] | None:
    """The inputs without the last demonstration, or else the last passage of the longest list, which keeps one.

    None if there is neither. The step `shortened` records what is left out.
    """
    if demos := inputs.get("demos", getattr(predict_of(predictor), "demos", None)):
        shortened.demonstrations += 1
        return {**inputs, "demos": demos[:-1]}
    lists = {n: v for n, v in inputs.items() if isinstance(v, list) and len(v) > 1 and isinstance(v[-1], Passage)}
    if not lists:
        return None
    longest = max(lists, key=lambda name: len(lists[name]))
    shortened.passages.append(lists[longest][-1].id)
    return {**inputs, longest: lists[longest][:-1]}
