"""Call a predictor so that its reply is read as models write it, at temperature 0 unless something else was said."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import dspy
from dspy.utils.exceptions import LMInvalidRequestError, LMProviderError, LMUnsupportedFeatureError

from knowgap.programs.replies.adapter import adapter_in_use

__all__ = ["call_predictor", "default_sampling", "is_garbled", "lm_of"]

_REFUSING: WeakSet[Any] = WeakSet()
"""Models that have refused a temperature of 0."""


def default_sampling(lm: Any) -> dict[str, Any]:
    """What is sent to a language model that does not say how to sample: temperature 0.

    Nothing is sent to a model whose temperature is set, to OpenAI's reasoning models, which refuse 0, and to a model
    that runs in this process (a custom engine), which decodes greedily unless told otherwise.
    """
    if not isinstance(lm, dspy.LM) or not isinstance(lm.engine, str):
        return {}
    # DSPy renames `max_tokens` for OpenAI's reasoning models.
    chosen = any(lm.kwargs.get(name) is not None for name in ("temperature", "top_p", "rollout_id", "n"))
    return {} if chosen or "max_completion_tokens" in lm.kwargs else {"temperature": 0.0}


def lm_of(predictor: dspy.Module, inputs: Mapping[str, Any]) -> Any:
    """The language model that answers a predictor called with these inputs."""
    return inputs.get("lm") or getattr(_predict_of(predictor), "lm", None) or dspy.settings.lm


def _predict_of(predictor: dspy.Module) -> dspy.Module:
    return predictor if isinstance(predictor, dspy.Predict) else next(iter(predictor.predictors()), predictor)


def call_predictor(predictor: dspy.Module, **inputs: Any) -> dspy.Prediction:
    """Call a predictor under the adapter of DSPy's settings, which then reads replies as models write them.

    Args:
        predictor: a `dspy.Predict`, or a module with one.
        **inputs: of its signature; `config` and `lm` as for `dspy.Predict`.

    Raises:
        AdapterParseError: the reply cannot be read.
        LMError: the language model does not answer.
    """
    lm = lm_of(predictor, inputs)
    config = {**getattr(_predict_of(predictor), "config", {}), **inputs.get("config", {})}
    said = config.keys() & {"temperature", "top_p", "rollout_id", "n"}
    sampling = {} if said or lm in _REFUSING else default_sampling(lm)
    with dspy.context(adapter=adapter_in_use()):
        if not sampling:
            return _call(predictor, lm, inputs)
        try:
            return _call(predictor, lm, {**inputs, "config": {**inputs.get("config", {}), **sampling}})
        except (LMInvalidRequestError, LMUnsupportedFeatureError) as error:
            if "temperature" not in str(error).lower():
                raise
        _REFUSING.add(lm)
        return _call(predictor, lm, inputs)


def is_garbled(error: BaseException) -> bool:
    """Whether an endpoint answered with status 200 and a body that is no JSON: cut off, a page of HTML, or empty."""
    return isinstance(error, LMProviderError) and error.status == 200


def _call(predictor: dspy.Module, lm: Any, inputs: Mapping[str, Any]) -> dspy.Prediction:
    """Call a predictor, again after a garbled answer, as often and with the same waits as DSPy retries a status 500."""
    for attempt in range(getattr(lm, "num_retries", 0)):
        try:
            return predictor(**inputs)
        except LMProviderError as error:
            if not is_garbled(error):
                raise
        time.sleep(min(2**attempt, 60))
    return predictor(**inputs)
