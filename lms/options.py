"""Options of a language model, as a command line or the environment states them: `temperature=0.2`, `timeout=60`."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field, TypeAdapter, ValidationError

from knowgap.errors import UnknownName, UsageError

DEFAULT_TIMEOUT = 120.0
"""Seconds that an endpoint may send nothing before a call counts as lost."""

CONNECTION_OPTIONS = ("timeout", "num_retries")
"""Options that do not change what a model answers: they are part of no identity and of no key of a cache."""

HF_OPTIONS = ("device", "max_new_tokens", "dtype", "batch_size")
"""Options of models that run in this process (`hf/…`) alone."""

_SECRET = ("key", "auth", "secret", "password", "base", "url", "endpoint", "header", "credential", "organization")
_OURS = (
    "async_engine", "cache", "callbacks", "engine", "finetuning_model", "launch_kwargs", "logprobs", "messages",
    "model", "n", "prompt", "prompt_cache", "provider", "request", "response_format", "rollout_id", "stream",
    "tool_choice", "tools", "top_logprobs", "train_kwargs",
)  # fmt: skip

_TYPES: dict[str, Any] = {
    "temperature": Annotated[float, Field(ge=0, le=2)],
    "max_tokens": Annotated[int, Field(ge=1)],
    "timeout": Annotated[float, Field(ge=0.1, le=86_400)],
    "num_retries": Annotated[int, Field(ge=0, le=100)],
    "top_p": Annotated[float, Field(ge=0, le=1)],
    "top_k": Annotated[int, Field(ge=1)],
    "seed": int,
    "frequency_penalty": Annotated[float, Field(ge=-2, le=2)],
    "presence_penalty": Annotated[float, Field(ge=-2, le=2)],
    "reasoning_effort": str,
    "model_type": Literal["chat", "text", "responses"],
    "max_new_tokens": Annotated[int, Field(ge=1)],
    "device": str,
    "dtype": Literal["auto", "float32", "bfloat16", "float16"],
    "batch_size": Annotated[int, Field(ge=1)],
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
    return {name: check_option(name, text if name in _TYPES else _parsed(text)) for name, text in written.items()}


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def check_option(name: str, value: Any) -> Any:
    """The value of an option, of the option's type.

    Raises:
        UsageError: the option takes another value, is a secret, or is set elsewhere.
        UnknownName: the name is nearly that of an option, which would not be found out otherwise.
    """
    if name in _TYPES:
        try:
            return TypeAdapter(_TYPES[name]).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"].replace("Input should be", "it should be")
            raise UsageError(f"{name}={value}: {reason}") from None
    if name in _OURS or is_secret(name):
        raise UsageError(
            f"{name} is not given as an option: --lm names the model, --api-base its server, the provider's "
            "environment variable, such as OPENAI_API_KEY, has the key, and programs set the rest"
        )
    if not name.isidentifier() or get_close_matches(name, _TYPES, n=1, cutoff=0.8):
        raise UnknownName.among("option of a language model", name, _TYPES)
    return value
