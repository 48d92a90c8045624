"""Which of several calls of a predictor becomes the demonstration of a question."""

from __future__ import annotations

import random
from typing import Any

from knowgap.compile.evaluation.metrics import Metric

__all__ = ["one_call_each"]


def one_call_each(metric: Metric, seed: int) -> Metric:
    """The metric, which leaves one call of each predictor in a trace.

    Where a predictor was called several times for a question, DSPy's bootstrapping shows the last call half of the
    time, else one of those before it. It draws by a hash of pickled objects, which differs from run to run though the
    calls are the same. The same draw is made here first, by the seed and the question.

    Args:
        metric: scores a prediction.
        seed: of the draws.
    """

    def measure(example: Any, prediction: Any, trace: Any = None) -> Any:
        score = metric(example, prediction, trace)
        if trace:
            calls: dict[int, list[Any]] = {}
            for step in trace:
                calls.setdefault(id(step[0]), []).append(step)
            draw = random.Random(f"{seed} {example.question}")
            trace[:] = [_one(steps, draw) for steps in calls.values()]
        return score

    return measure


def _one(steps: list[Any], draw: random.Random) -> Any:
    earlier = len(steps) > 1 and draw.random() < 0.5
    return draw.choice(steps[:-1]) if earlier else steps[-1]
