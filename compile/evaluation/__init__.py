"""Asking programs many questions, scoring their answers, and what that costs.

`evaluate` asks one program or several, and returns an `Evaluation` or `Evaluations`. It is made of `run_questions`, as
the cells of experiments and the trials of studies are. `Estimate` says beforehand what a run costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowgap.lazy import export_lazily

if TYPE_CHECKING:
    from knowgap.compiling.evaluation.estimate import Estimate as Estimate
    from knowgap.compiling.evaluation.evaluator import evaluate as evaluate
    from knowgap.compiling.evaluation.evaluator import load_answers as load_answers
    from knowgap.compiling.evaluation.results import Evaluation as Evaluation
    from knowgap.compiling.evaluation.results import Evaluations as Evaluations
    from knowgap.compiling.evaluation.results import compare as compare
    from knowgap.compiling.evaluation.runner import QuestionRecord as QuestionRecord
    from knowgap.compiling.evaluation.runner import map_ordered as map_ordered
    from knowgap.compiling.evaluation.runner import run_questions as run_questions
    from knowgap.compiling.evaluation.statistics import Comparison as Comparison
    from knowgap.compiling.evaluation.statistics import Interval as Interval
else:
    __all__, __getattr__, __dir__ = export_lazily(__name__)
