"""Language models where no API is: the embedded extractive reader, and local Transformers models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowgap.lms.embedded.engine import AsyncExtractiveEngine, ExtractiveEngine
    from knowgap.lms.providers import as_language_model_error, check_reachable, extractive_lm, make_lm, quiet_dspy
    from knowgap.lms.transformers_engine import AsyncHFEngine, HFEngine

__all__ = [
    "AsyncExtractiveEngine",
    "AsyncHFEngine",
    "ExtractiveEngine",
    "HFEngine",
    "as_language_model_error",
    "check_reachable",
    "extractive_lm",
    "make_lm",
    "quiet_dspy",
]

_HOMES = {
    "AsyncExtractiveEngine": "knowgap.lms.embedded.engine",
    "AsyncHFEngine": "knowgap.lms.transformers_engine",
    "ExtractiveEngine": "knowgap.lms.embedded.engine",
    "HFEngine": "knowgap.lms.transformers_engine",
    "as_language_model_error": "knowgap.lms.providers",
    "check_reachable": "knowgap.lms.providers",
    "extractive_lm": "knowgap.lms.providers",
    "make_lm": "knowgap.lms.providers",
    "quiet_dspy": "knowgap.lms.providers",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
