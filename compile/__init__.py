"""The dev set and what is done with it: evaluate, compile, calibrate, tune, save.

>>> from knowgap.compiling import evaluate, compile_program, calibrate, tune
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowgap.lazy import export_lazily

if TYPE_CHECKING:
    from knowgap.compiling.artifact import load_artifact as load_artifact
    from knowgap.compiling.artifact import read_config as read_config
    from knowgap.compiling.artifact import save_artifact as save_artifact
    from knowgap.compiling.demonstrations.compile_program import compile_program as compile_program
    from knowgap.compiling.evaluation.estimate import Estimate as Estimate
    from knowgap.compiling.evaluation.evaluator import evaluate as evaluate
    from knowgap.compiling.evaluation.results import Evaluation as Evaluation
    from knowgap.compiling.evaluation.results import Evaluations as Evaluations
    from knowgap.compiling.evaluation.results import compare as compare
    from knowgap.compiling.evaluation.statistics import Comparison as Comparison
    from knowgap.compiling.study.config import Budget as Budget
    from knowgap.compiling.study.config import DemoConfig as DemoConfig
    from knowgap.compiling.study.config import StudyConfig as StudyConfig
    from knowgap.compiling.study.estimate import estimate_study as estimate_study
    from knowgap.compiling.study.tuning import Tuning as Tuning
    from knowgap.compiling.study.tuning import tune as tune
    from knowgap.compiling.thresholds.delta_calibration import Calibration as Calibration
    from knowgap.compiling.thresholds.delta_calibration import calibrate as calibrate
    from knowgap.compiling.thresholds.reanchor import ThresholdCalibration as ThresholdCalibration
    from knowgap.compiling.thresholds.reanchor import calibrate_thresholds as calibrate_thresholds
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
