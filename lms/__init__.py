"""Language models: by name, the embedded extractive reader, and local Transformers models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowgap.lazy import export_lazily

if TYPE_CHECKING:
    from knowgap.lms.embedded.engine import AsyncExtractiveEngine as AsyncExtractiveEngine
    from knowgap.lms.embedded.engine import ExtractiveEngine as ExtractiveEngine
    from knowgap.lms.local.engine import AsyncHFEngine as AsyncHFEngine
    from knowgap.lms.local.engine import HFEngine as HFEngine
    from knowgap.lms.providers import as_language_model_error as as_language_model_error
    from knowgap.lms.providers import check_reachable as check_reachable
    from knowgap.lms.providers import extractive_lm as extractive_lm
    from knowgap.lms.providers import make_lm as make_lm
    from knowgap.lms.providers import quiet_dspy as quiet_dspy
    from knowgap.lms.rq_rag.generator import TranscriptGenerator as TranscriptGenerator
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
