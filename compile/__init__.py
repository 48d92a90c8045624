"""The dev set and what is done with it: evaluate, compile, calibrate, tune, save.

>>> from knowgap.compile import evaluate, compile_program, calibrate, tune
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowgap.lazy import export_lazily

if TYPE_CHECKING:
    from knowgap.compile.artifact import load_artifact as load_artifact
    from knowgap.compile.artifact import read_config as read_config
    from knowgap.compile.artifact import save_artifact as save_artifact
    from knowgap.compile.demonstrations.compile_program import compile_program as compile_program
    from knowgap.compile.evaluation.estimate import Estimate as Estimate
    from knowgap.compile.evaluation.estimate import estimate_evaluation as estimate_evaluation
    from knowgap.compile.evaluation.evaluator import evaluate as evaluate
    from knowgap.compile.evaluation.evaluator import evaluate_on_test as evaluate_on_test
    from knowgap.compile.evaluation.results import Evaluation as Evaluation
    from knowgap.compile.evaluation.results import compare as compare
    from knowgap.compile.evaluation.statistics import Comparison as Comparison
    from knowgap.compile.study.config import Budget as Budget
    from knowgap.compile.study.config import DemoConfig as DemoConfig
    from knowgap.compile.study.config import StudyConfig as StudyConfig
    from knowgap.compile.study.estimate import estimate_study as estimate_study
    from knowgap.compile.study.tuning import Tuning as Tuning
    from knowgap.compile.study.tuning import tune as tune
    from knowgap.compile.thresholds.delta_calibration import Calibration as Calibration
    from knowgap.compile.thresholds.delta_calibration import calibrate as calibrate
    from knowgap.compile.thresholds.reanchor import ThresholdCalibration as ThresholdCalibration
    from knowgap.compile.thresholds.reanchor import calibrate_thresholds as calibrate_thresholds
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
