"""Make language models by name and options, check that they answer, and say in one line why one cannot be used.

Models that were trained for a part of a method are among them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dspy
from dspy.utils.exceptions import LMAuthError, LMError, LMServerError, LMTimeoutError, LMTransportError
from pydantic import Json, TypeAdapter, ValidationError

from knowgap.errors import (
    CheckpointError,
    LanguageModelError,
    LanguageModelUnreachable,
    UnknownName,
    UsageError,
    shorten,
)
from knowgap.lms.embedded.engine import ExtractiveEngine
from knowgap.lms.metering import ask_patiently
from knowgap.lms.transcripts import END

EXTRACTIVE = "knowgap/extractive-10"
"""The model name of the embedded reader. Its number rises when replies change, so that caches and results stay
apart."""

TRAINED = ("know", "relevant", "decompose", "generator")
"""The arguments of programs that take a trained model: those of RA-ISF, and `generator` of RQ-RAG."""
_LONGEST_QUERY = 256
"""Tokens of a query or an answer of RQ-RAG's generator at most."""

_SHORTEST_KEY = 8  # characters

_OPTIONS: dict[str, Any] = {
    **dict.fromkeys(("temperature", "top_p", "frequency_penalty", "presence_penalty", "timeout"), float),
    **dict.fromkeys(("max_tokens", "max_new_tokens", "num_retries", "seed"), int),
    **dict.fromkeys(("reasoning_effort", "model_type", "device"), str),
    "extra_body": Json[dict[str, Any]],
}


def make_lm(name: str, *, api_base: str | None = None, api_key: str | None = None, **kwargs: Any) -> dspy.LM:
    """Make a language model by name.

    Args:
        name: `extractive` for the embedded reader, `hf/PATH_OR_ID` for a local Transformers model, or a DSPy model
            string such as `openai/gpt-4o-mini` or `ollama_chat/llama3.2`.
        api_base: address of an OpenAI-compatible server (vLLM, SGLang, llama.cpp), as `http://host:port/v1`. DSPy's own
            cache mixes up servers that name their models alike; call `quiet_dspy` first if you ask several.
        api_key: its key; most local servers accept any.
        **kwargs: for `dspy.LM`: `temperature`, `max_tokens`, `cache`, `num_retries` (3 unless set), `timeout` in
            seconds (120 unless set); for `hf/…` those of `HFEngine` instead of the last two: `device`,
            `max_new_tokens`.

    Raises:
        UsageError: the name has no known form, the model folder does not exist, or the model takes no such option.

    >>> import knowgap
    >>> knowgap.make_lm("openai/gpt-4o-mini", temperature=0.2).model
    'openai/gpt-4o-mini'
    """
    options = {key: value for key, value in {"api_base": api_base, "api_key": api_key}.items() if value} | kwargs
    provider, _, model = name.partition("/")
    if name == "extractive" or (provider == "hf" and model):
        return _in_this_process(name, model, options)
    if not (provider and model):
        raise UsageError(
            f"unknown language model {name!r}: give extractive, hf/PATH_OR_ID, or PROVIDER/MODEL (openai/gpt-4o-mini)"
        )
    base = api_base or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
    if provider == "openai" and base:
        options["api_base"] = base
        if not os.environ.get("OPENAI_API_KEY"):  # a local server needs no key, but its client requires one
            options.setdefault("api_key", "none")
    try:
        return dspy.LM(name, **{"timeout": 120.0, **options})
    except (LMError, ValueError, TypeError) as error:
        raise UsageError(f"the language model {name!r} cannot be used: {shorten(error, 200)}") from error


def _in_this_process(name: str, model: str, options: dict[str, Any]) -> dspy.LM:
    """The embedded reader, or a model of Transformers; options that it would ignore are refused."""
    if name == "extractive":
        name, known, engine = EXTRACTIVE, frozenset[str](), ExtractiveEngine()
    else:
        from knowgap.lms.local import HFEngine

        looks_like_path = model.startswith((".", "/", "~")) or model.count("/") != 1
        if looks_like_path and not (Path(model).expanduser() / "config.json").is_file():
            raise UsageError(f"no Transformers model at {model!r} (from {name!r}): the folder must hold a config.json")
        own = {option: options.pop(option) for option in ("device", "max_new_tokens") if option in options}
        known, engine = HFEngine.supported_params, HFEngine(model, **own)
        # The request states this option as well, since DSPy's cache does not know the engine's settings.
        options = {"max_tokens": engine.max_new_tokens, **options}
    if unknown := sorted({*options} - {*known, "cache", "callbacks"}):
        raise UsageError(f"the language model {name!r} does not take the options {', '.join(unknown)}")
    return dspy.LM(name, engine=engine, **options)


def load_trained(argument: str, where: str | Path) -> Any:
    """Load the trained model for an argument of a program.

    It is a language model of Transformers; `relevant` may also be a cross-encoder, whose threshold is even odds.

    Args:
        argument: a name of `TRAINED`.
        where: the model's folder, its name on the hub, or as NAME@URL the name that a server has for it and the
            server's address.

    Raises:
        UsageError: the folder holds no model.
        CheckpointError: the model has not learnt to write RQ-RAG's transcripts.
    """
    name, at, server = str(where).partition("@http")
    if at:
        return make_lm(f"openai/{name}", api_base=f"http{server}", max_tokens=_LONGEST_QUERY)
    folder = Path(where).expanduser()
    place = f"hf/{folder.absolute() if folder.exists() else name}"  # a folder's name never stands for one on the hub
    config = folder / "config.json"
    if argument == "generator":
        known = (file.read_text(encoding="utf-8") for file in folder.glob("*token*.json"))
        if config.is_file() and not any(END in text for text in known):
            raise CheckpointError(f"{name} has not learnt the control tokens: train it with `knowgap train rq-rag`")
        return make_lm(place, max_new_tokens=_LONGEST_QUERY)
    if argument == "relevant" and config.is_file() and "ForSequenceClassification" in config.read_text("utf-8"):
        from knowgap.retrieval.rerankers.reranker import CrossEncoderReranker

        return CrossEncoderReranker(folder, default_threshold=0.0)
    return make_lm(place)


def parse_options(written: Mapping[str, str]) -> dict[str, Any]:
    """Read options from text; `extra_body` is JSON, for what only some servers know (`extra_body={"min_p": 0.1}`).

    Raises:
        UsageError: an option does not take this value.
        UnknownName: there is no such option, or it is a secret.
    """
    options: dict[str, Any] = {}
    for name, text in written.items():
        if name not in _OPTIONS:
            note = "; other options go into extra_body as JSON, and keys into the provider's environment variable"
            raise UnknownName.among("option of a language model", name, _OPTIONS, note)
        try:
            options[name] = TypeAdapter(_OPTIONS[name]).validate_python(text)
        except ValidationError as error:
            raise UsageError(f"{name}={text}: {error.errors()[0]['msg']}") from None
    return options


def check_reachable(lm: dspy.BaseLM) -> None:
    """Ask an endpoint for one word, so that long work does not fail halfway.

    The call is repeated after transient faults. A model that runs in this process is not called.

    Raises:
        LanguageModelUnreachable: nothing answers.
        LanguageModelError: the endpoint refuses the key, the model name, or the request.
    """
    if not isinstance(getattr(lm, "engine", "auto"), str):
        return
    try:
        ask_patiently(lm, lambda lm: lm("Answer with one word: ready", cache=False), at_first=True)
    except LMError as error:
        raise as_language_model_error(error, lm) from error


def as_language_model_error(error: LMError, lm: dspy.BaseLM | None = None) -> LanguageModelError:
    """Turn a DSPy error into one line that says what to do; `LanguageModelUnreachable` if nothing answered.

    `lm` is the model that failed; None for the one in DSPy's settings.
    """
    lm = lm or dspy.settings.lm
    reason = shorten(_without_keys(str(error).partition("\n\n")[0], lm), 200)
    if lm is None:  # the program's predictors have their own
        return LanguageModelError(f"the language model cannot be used: {reason}")
    if isinstance(error, (LMTransportError, LMTimeoutError, LMServerError)):
        where = lm.kwargs.get("api_base") or "its provider's address"
        return LanguageModelUnreachable(
            f"the language model {lm.model!r} does not answer at {where}: {reason}; "
            "check that it is running, or name another with --lm and --api-base"
        )
    problem = "refuses the key" if isinstance(error, LMAuthError) else "cannot be used"
    return LanguageModelError(f"the language model {lm.model!r} {problem}: {reason}")


def _without_keys(text: str, lm: dspy.BaseLM | None) -> str:
    """A text without the language model's key and the keys in the environment, which some providers repeat."""
    named = {**os.environ, **(lm.kwargs if lm is not None else {})}
    keys = [str(value) for name, value in named.items() if name.upper().endswith(("_KEY", "_TOKEN"))]
    for key in sorted((key for key in keys if len(key) >= _SHORTEST_KEY), key=len, reverse=True):
        text = text.replace(key, "[key]")
    return text


def unreadable_replies(lm: dspy.BaseLM, calls: int, cut: int) -> LanguageModelError:
    """The error that none of `calls` replies could be read, of which `cut` ended at the limit of tokens."""
    return LanguageModelError(
        f"none of {calls} replies of the language model {lm.model!r} could be read, of which {cut} were cut off: allow "
        "longer replies (max_tokens), or take a model that is trained for chat, at an address that ends with /v1"
    )
