"""The dev set and what is done with it: evaluate, compile, calibrate, tune, save.

>>> from knowgap.compile import evaluate, compile_program, calibrate, tune
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowgap.compile.artifact import load_artifact as load_artifact
    from knowgap.compile.artifact import read_config as read_config
    from knowgap.compile.artifact import save_artifact as save_artifact
    from knowgap.compile.calibration import Calibration as Calibration
    from knowgap.compile.calibration import calibrate as calibrate
    from knowgap.compile.deciding import ThresholdCalibration as ThresholdCalibration
    from knowgap.compile.deciding import calibrate_thresholds as calibrate_thresholds
    from knowgap.compile.demonstrations import compile_program as compile_program
    from knowgap.compile.estimating import Estimate as Estimate
    from knowgap.compile.estimating import estimate_study as estimate_study
    from knowgap.compile.evaluating import evaluate as evaluate
    from knowgap.compile.evaluating import evaluate_on_test as evaluate_on_test
    from knowgap.compile.evaluation import Comparison as Comparison
    from knowgap.compile.evaluation import Evaluation as Evaluation
    from knowgap.compile.evaluation import compare as compare
    from knowgap.compile.report import render_report as render_report
    from knowgap.compile.report import write_report as write_report
    from knowgap.compile.spending import Budget as Budget
    from knowgap.compile.tuning import Tuning as Tuning
    from knowgap.compile.tuning import tune as tune

_MODULES = {
    "ThresholdCalibration": "deciding",
    "calibrate_thresholds": "deciding",
    "Estimate": "estimating",
    "estimate_study": "estimating",
    "load_artifact": "artifact",
    "read_config": "artifact",
    "save_artifact": "artifact",
    "render_report": "report",
    "write_report": "report",
    "Budget": "spending",
    "Tuning": "tuning",
    "tune": "tuning",
    "Calibration": "calibration",
    "Comparison": "evaluation",
    "Evaluation": "evaluation",
    "calibrate": "calibration",
    "compare": "evaluation",
    "compile_program": "demonstrations",
    "evaluate": "evaluating",
    "evaluate_on_test": "evaluating",
}

__all__ = [
    "Budget",
    "Calibration",
    "Comparison",
    "Estimate",
    "Evaluation",
    "ThresholdCalibration",
    "Tuning",
    "calibrate",
    "calibrate_thresholds",
    "compare",
    "compile_program",
    "estimate_study",
    "evaluate",
    "evaluate_on_test",
    "load_artifact",
    "read_config",
    "render_report",
    "save_artifact",
    "tune",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
