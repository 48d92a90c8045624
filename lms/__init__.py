"""Language models where no API is: the embedded extractive reader, and local Transformers models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowgap.lms.extractive import AsyncExtractiveEngine, ExtractiveEngine
    from knowgap.lms.hf import AsyncHFEngine, HFEngine
    from knowgap.lms.models import as_language_model_error, check_reachable, extractive_lm, make_lm, quiet_dspy

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
    "AsyncExtractiveEngine": "knowgap.lms.extractive",
    "AsyncHFEngine": "knowgap.lms.hf",
    "ExtractiveEngine": "knowgap.lms.extractive",
    "HFEngine": "knowgap.lms.hf",
    "as_language_model_error": "knowgap.lms.models",
    "check_reachable": "knowgap.lms.models",
    "extractive_lm": "knowgap.lms.models",
    "make_lm": "knowgap.lms.models",
    "quiet_dspy": "knowgap.lms.models",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
