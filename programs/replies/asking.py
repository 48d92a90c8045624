"""Call a predictor so that its reply is read as models write it, at temperature 0 unless something else was said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import dspy
from dspy.utils.exceptions import LMInvalidRequestError, LMUnsupportedFeatureError

from knowgap.programs.replies.adapter import adapter_in_use
from knowgap.programs.replies.calls import patient

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
    bound = {} if lm is dspy.settings.lm else {"lm": patient(lm)}
    given = {**inputs, **bound}
    config = {**getattr(_predict_of(predictor), "config", {}), **inputs.get("config", {})}
    said = config.keys() & {"temperature", "top_p", "rollout_id", "n"}
    sampling = {} if said or lm in _REFUSING else default_sampling(lm)
    with dspy.context(adapter=adapter_in_use(), lm=dspy.settings.lm if bound else patient(lm)):
        if not sampling:
            return predictor(**given)
        try:
            return predictor(**{**given, "config": {**inputs.get("config", {}), **sampling}})
        except (LMInvalidRequestError, LMUnsupportedFeatureError) as error:
            if "temperature" not in str(error).lower():
                raise
        _REFUSING.add(lm)
        return predictor(**given)
