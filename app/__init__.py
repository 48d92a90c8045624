"""knowgap: question answering that notices what it does not know yet and goes and looks for it.

Modules are imported when one of their names is first used, so `import knowgap` loads nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowgap.lazy import export_lazily

if TYPE_CHECKING:
    from knowgap.compiling import Evaluation as Evaluation
    from knowgap.compiling import StudyConfig as StudyConfig
    from knowgap.compiling import compare as compare
    from knowgap.compiling import compile as compile
    from knowgap.compiling import evaluate as evaluate
    from knowgap.compiling import load_artifact, save_artifact
    from knowgap.compiling.data import Dataset as Dataset
    from knowgap.compiling.data import build_index as build_index
    from knowgap.compiling.data import load_dataset as load_dataset
    from knowgap.compiling.data import read_corpus as read_corpus
    from knowgap.compiling.evaluation.metrics import get_metric as get_metric
    from knowgap.compiling.questions.writing import write_questions as write_questions
    from knowgap.errors import KnowgapError as KnowgapError
    from knowgap.lms import extractive_lm as extractive_lm
    from knowgap.lms import make_lm as make_lm
    from knowgap.programs import get_program as get_program
    from knowgap.programs.adaptive_note import AdaptiveNote as AdaptiveNote
    from knowgap.programs.base import Program as Program
    from knowgap.programs.blend_filter import BlendFilter as BlendFilter
    from knowgap.programs.migres import MIGRES as MIGRES
    from knowgap.programs.prediction import Citation as Citation
    from knowgap.programs.ra_isf import RAISF as RAISF
    from knowgap.programs.rq_rag import RQRAG as RQRAG
    from knowgap.programs.trace.trace import Trace as Trace
    from knowgap.retrieval.bm25 import BM25Index as BM25Index
    from knowgap.retrieval.colbert.index import ColBERTIndex as ColBERTIndex
    from knowgap.retrieval.index.engines import open_index as open_index
    from knowgap.retrieval.passage import Hit as Hit
    from knowgap.retrieval.passage import Passage as Passage
    from knowgap.retrieval.passage import Retriever as Retriever
    from knowgap.version import __version__ as __version__

    load = load_artifact
    save = save_artifact
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
