"""Language models by name, whether their endpoint answers, and a quiet DSPy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import dspy
from dspy.utils.exceptions import LMAuthError, LMError, LMServerError, LMTimeoutError, LMTransportError

from knowgap.errors import LanguageModelError, LanguageModelUnreachable, UsageError
from knowgap.lms.embedded.engine import AsyncExtractiveEngine, ExtractiveEngine

__all__ = ["EXTRACTIVE", "as_language_model_error", "check_reachable", "extractive_lm", "make_lm", "quiet_dspy"]


EXTRACTIVE = "knowgap/extractive"
"""The model name of the embedded reader."""


def extractive_lm(**kwargs: Any) -> dspy.LM:
    """The embedded reader as a `dspy.LM`; `kwargs` go to `dspy.LM` (`cache=False`, say)."""
    return dspy.LM(EXTRACTIVE, engine=ExtractiveEngine(), async_engine=AsyncExtractiveEngine(), **kwargs)


def make_lm(name: str, *, api_base: str | None = None, api_key: str | None = None, **kwargs: Any) -> dspy.LM:
    """A language model by name.

    Args:
        name: `extractive` for the embedded reader, `hf/PATH_OR_ID` for a local Transformers model, or a DSPy model
            string such as `openai/gpt-4o-mini` or `ollama_chat/llama3.2`.
        api_base: where an OpenAI-compatible server listens (vLLM, SGLang, llama.cpp), as `http://host:port/v1`.
        api_key: its key; local servers mostly take any.
        **kwargs: for `dspy.LM`: `temperature`, `max_tokens`, `cache`, `num_retries`; for `hf/…` also `device` and
            `max_new_tokens`.

    Raises:
        UsageError: for a name of no known form, a model folder that is not there, or an option without effect.
    """
    provider, slash, model = name.partition("/")
    local = name == "extractive" or provider == "hf"
    if local and (api_base or api_key):
        raise UsageError(f"the language model {name!r} runs in this process: leave out --api-base and --api-key")
    if name == "extractive":
        return extractive_lm(**kwargs)
    if not (provider and slash and model):
        raise UsageError(
            f"unknown language model {name!r}: give extractive, hf/PATH_OR_ID, or PROVIDER/MODEL (openai/gpt-4o-mini)"
        )
    if provider == "hf":
        return _local_lm(name, model, **kwargs)
    # A local server needs no key, but its client insists on one.
    key = api_key or ("none" if api_base and provider == "openai" and not os.environ.get("OPENAI_API_KEY") else None)
    connection = {key_: value for key_, value in {"api_base": api_base, "api_key": key}.items() if value}
    return dspy.LM(name, **connection, **kwargs)


def _local_lm(name: str, model: str, *, device: str | None = None, max_new_tokens: int = 512, **kwargs: Any) -> dspy.LM:
    from knowgap.lms.transformers_engine import AsyncHFEngine, HFEngine

    looks_like_path = model.startswith((".", "/", "~")) or model.count("/") != 1
    if looks_like_path and not (Path(model).expanduser() / "config.json").is_file():
        raise UsageError(f"no Transformers model at {model!r} (from {name!r}): the folder must hold a config.json")
    engine = HFEngine(model, device=device, max_new_tokens=max_new_tokens)
    return dspy.LM(name, engine=engine, async_engine=AsyncHFEngine(engine), **kwargs)


def check_reachable(lm: dspy.BaseLM) -> None:
    """Ask an endpoint for one word, to fail before long work and not in it.

    A model that runs in this process passes without a call.

    Raises:
        LanguageModelUnreachable: when nothing answers.
        LanguageModelError: when something answers, and refuses (key, model name).
    """
    if not isinstance(getattr(lm, "engine", "auto"), str):
        return
    try:
        lm.copy(num_retries=0)("Answer with one word: ready", cache=False)
    except LMError as error:
        raise as_language_model_error(error, lm) from error


def as_language_model_error(error: LMError, lm: dspy.BaseLM) -> LanguageModelError:
    """An error of DSPy's in one line that says what to do: `LanguageModelUnreachable` where nothing answered."""
    reason = _one_line(error)
    if isinstance(error, (LMTransportError, LMTimeoutError, LMServerError)):
        where = lm.kwargs.get("api_base") or "its provider's address"
        return LanguageModelUnreachable(
            f"the language model {lm.model!r} does not answer at {where}: {reason}; "
            "start the server, or name another with --lm and --api-base"
        )
    if isinstance(error, LMAuthError):
        return LanguageModelError(f"the language model {lm.model!r} refuses the key: {reason}")
    return LanguageModelError(f"the language model {lm.model!r} cannot be used: {reason}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def quiet_dspy(cache_dir: str | Path | None = None) -> None:
    """Keep DSPy off the network and out of the home folder.

    Its table of model prices stays the packaged one, and replies are cached in `cache_dir`, or in memory alone where
    that is None. Call it once, before the first language model is used.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    if cache_dir is None:
        dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)
    else:
        folder = Path(cache_dir).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        # What is no longer in memory is on disk: a study's answers would take gigabytes.
        dspy.configure_cache(
            enable_disk_cache=True,
            enable_memory_cache=True,
            disk_cache_dir=str(folder),
            memory_max_entries=10_000,
        )
