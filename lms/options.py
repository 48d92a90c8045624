"""Options of a language model, as a command line or the environment states them: `temperature=0.2`, `timeout=60`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

import orjson

from knowgap.errors import UnknownName, UsageError

__all__ = ["CONNECTION_OPTIONS", "DEFAULT_TIMEOUT", "HF_OPTIONS", "check_option", "is_secret", "parse_options"]

DEFAULT_TIMEOUT = 120.0
"""Seconds that an endpoint may send nothing before a call counts as lost."""

CONNECTION_OPTIONS = ("timeout", "num_retries")
"""Options that do not change what a model answers: they are part of no identity and of no key of a cache."""

HF_OPTIONS = ("device", "max_new_tokens", "dtype", "batch_size")
"""Options of models that run in this process (`hf/…`) alone."""

_SECRET = ("key", "auth", "secret", "password", "base", "url", "endpoint", "header", "credential", "organization")
_ELSEWHERE = {
    "model": "name the model with --lm",
    "api_base": "name the endpoint with --api-base",
    "base_url": "name the endpoint with --api-base",
}
_OURS = (
    "async_engine", "cache", "callbacks", "engine", "finetuning_model", "launch_kwargs", "logprobs", "messages", "n",
    "prompt", "prompt_cache", "provider", "request", "response_format", "rollout_id", "stream", "tool_choice", "tools",
    "top_logprobs", "train_kwargs",
)  # fmt: skip


class _Kind(NamedTuple):
    """The values that an option takes; one of `choices`, if there are any."""

    type: type[int] | type[float] | type[str]
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.choices:
            return " or ".join(self.choices)
        what = {int: "a whole number", float: "a number", str: "text"}[self.type]
        if self.high < math.inf:
            return f"{what} from {self.low:g} to {self.high:g}"
        return what if self.low == -math.inf else f"{what}, at least {self.low:g}"


_KINDS = {
    "temperature": _Kind(float, 0, 2),
    "max_tokens": _Kind(int, 1),
    "timeout": _Kind(float, 0.1, 86_400),
    "num_retries": _Kind(int, 0, 100),
    "top_p": _Kind(float, 0, 1),
    "top_k": _Kind(int, 1),
    "seed": _Kind(int),
    "frequency_penalty": _Kind(float, -2, 2),
    "presence_penalty": _Kind(float, -2, 2),
    "reasoning_effort": _Kind(str),
    "model_type": _Kind(str, choices=("chat", "text", "responses")),
    "max_new_tokens": _Kind(int, 1),
    "device": _Kind(str),
    "dtype": _Kind(str, choices=("auto", "float32", "bfloat16", "float16")),
    "batch_size": _Kind(int, 1),
}


def is_secret(name: str) -> bool:
    """Whether a setting of a language model is a secret or says where its server is, by its name."""
    lower = name.lower()
    return lower.endswith("token") or any(word in lower for word in _SECRET)


def parse_options(written: Mapping[str, str]) -> dict[str, Any]:
    """Read options from text.

    Values of options that are not known here are JSON where they can be read as such (`top_a=0.1`,
    `extra_body={"min_p": 0.1}`), else text.

    Raises:
        UsageError: as for `check_option`.
    """
    return {name: check_option(name, _parsed(name, text)) for name, text in written.items()}


def _parsed(name: str, text: str) -> Any:
    if name in _KINDS and _KINDS[name].type is str:
        return text
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def check_option(name: str, value: Any) -> Any:
    """The value of an option, of the option's type.

    Raises:
        UsageError: the option takes another value; it is a secret, which belongs in the provider's environment variable
            (`OPENAI_API_KEY`); or it is set elsewhere.
        UnknownName: the name is nearly that of an option, which would not be found out otherwise.
    """
    kind = _KINDS.get(name)
    if kind is not None:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if kind.type is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        fits = number and kind.low <= value <= kind.high if kind.type is not str else isinstance(value, str)
        if (
            not fits
            or (kind.type is int and not isinstance(value, int))
            or (kind.choices and value not in kind.choices)
        ):
            raise UsageError(f"{name}={value}: {name} takes {kind}")
        return kind.type(value)
    if name in _ELSEWHERE:
        raise UsageError(f"{name} is no option of a language model: {_ELSEWHERE[name]}")
    if name in _OURS:
        raise UsageError(f"{name} is no option of a language model: programs set it")
    if is_secret(name):
        raise UsageError(
            f"{name} may be a secret: set it in the provider's environment variable, such as OPENAI_API_KEY"
        )
    if not name.isidentifier() or get_close_matches(name, _KINDS, n=1, cutoff=0.8):
        raise UnknownName.among("option of a language model", name, _KINDS)
    return value
