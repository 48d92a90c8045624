"""knowgap: question answering that notices what it does not know yet and goes and looks for it.

The names below are resolved when they are first used, so that `import knowgap` loads nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowgap.compile import (
        Budget,
        DemoConfig,
        Evaluation,
        StudyConfig,
        calibrate,
        compare,
        compile_program,
        evaluate,
        tune,
    )
    from knowgap.compile import load_artifact as load
    from knowgap.compile import save_artifact as save
    from knowgap.compile.data import Dataset, load_dataset, read_corpus
    from knowgap.compile.evaluation.metrics import get_metric
    from knowgap.errors import KnowgapError
    from knowgap.lms import extractive_lm, make_lm
    from knowgap.programs import get_program
    from knowgap.programs.adaptive_note import AdaptiveNote
    from knowgap.programs.base import Program
    from knowgap.programs.blend_filter import BlendFilter
    from knowgap.programs.migres import MIGRES
    from knowgap.programs.ra_isf import RAISF
    from knowgap.programs.rq_rag import RQRAG
    from knowgap.programs.trace.trace import Trace
    from knowgap.retrieval.bm25 import BM25Index
    from knowgap.retrieval.colbert.index import ColBERTIndex
    from knowgap.retrieval.index.engines import open_index
    from knowgap.retrieval.passage import Hit, Passage, Retriever

    __version__: str

_WHERE = {
    "AdaptiveNote": "programs.adaptive_note",
    "BM25Index": "retrieval.bm25",
    "BlendFilter": "programs.blend_filter",
    "Budget": "compile",
    "ColBERTIndex": "retrieval.colbert.index",
    "Dataset": "compile.data",
    "DemoConfig": "compile",
    "Evaluation": "compile",
    "Hit": "retrieval.passage",
    "KnowgapError": "errors",
    "MIGRES": "programs.migres",
    "Passage": "retrieval.passage",
    "Program": "programs.base",
    "RAISF": "programs.ra_isf",
    "RQRAG": "programs.rq_rag",
    "Retriever": "retrieval.passage",
    "StudyConfig": "compile",
    "Trace": "programs.trace.trace",
    "calibrate": "compile",
    "compare": "compile",
    "compile_program": "compile",
    "evaluate": "compile",
    "extractive_lm": "lms",
    "get_metric": "compile.evaluation.metrics",
    "get_program": "programs",
    "load": "compile:load_artifact",
    "load_dataset": "compile.data",
    "make_lm": "lms",
    "open_index": "retrieval.index.engines",
    "read_corpus": "compile.data",
    "save": "compile:save_artifact",
    "tune": "compile",
}

__all__ = [
    "MIGRES",
    "RAISF",
    "RQRAG",
    "AdaptiveNote",
    "BM25Index",
    "BlendFilter",
    "Budget",
    "ColBERTIndex",
    "Dataset",
    "DemoConfig",
    "Evaluation",
    "Hit",
    "KnowgapError",
    "Passage",
    "Program",
    "Retriever",
    "StudyConfig",
    "Trace",
    "__version__",
    "calibrate",
    "compare",
    "compile_program",
    "evaluate",
    "extractive_lm",
    "get_metric",
    "get_program",
    "load",
    "load_dataset",
    "make_lm",
    "open_index",
    "read_corpus",
    "save",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("knowgap")
    if name not in _WHERE:
        raise AttributeError(f"module 'knowgap' has no attribute {name!r}")
    module, _, attribute = _WHERE[name].partition(":")
    return getattr(importlib.import_module(f"knowgap.{module}"), attribute or name)


def __dir__() -> list[str]:
    return sorted(__all__)
