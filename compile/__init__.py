"""The dev set and what is done with it: evaluate, compile, save.

>>> from knowgap.compiling import evaluate, compile, save_artifact
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowgap.lazy import export_lazily

if TYPE_CHECKING:
    from knowgap.compiling.artifact import load_artifact as load_artifact
    from knowgap.compiling.artifact import read_config as read_config
    from knowgap.compiling.artifact import save_artifact as save_artifact
    from knowgap.compiling.compiler import Compiled as Compiled
    from knowgap.compiling.compiler import compile as compile
    from knowgap.compiling.evaluation.estimate import Estimate as Estimate
    from knowgap.compiling.evaluation.evaluator import evaluate as evaluate
    from knowgap.compiling.evaluation.results import Evaluation as Evaluation
    from knowgap.compiling.evaluation.results import Evaluations as Evaluations
    from knowgap.compiling.evaluation.results import compare as compare
    from knowgap.compiling.evaluation.statistics import Comparison as Comparison
    from knowgap.compiling.study.config import StudyConfig as StudyConfig
    from knowgap.compiling.study.estimate import estimate_compile as estimate_compile
    from knowgap.compiling.study.run import StudyResult as StudyResult
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
