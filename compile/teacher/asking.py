"""Ask a language model for data."""

from __future__ import annotations

from typing import Any

import dspy
from dspy.utils.exceptions import LMError

from knowgap.compiling.evaluation.provenance import lm_name, lm_settings
from knowgap.lms.metering import without_history
from knowgap.lms.providers import as_language_model_error
from knowgap.programs.passages import number_passages
from knowgap.programs.replies.asking import ask_until_read


def ask_teacher(predictor: dspy.Module, lm: dspy.BaseLM, **inputs: Any) -> tuple[dspy.Prediction | None, int]:
    """Ask a language model; returns None for the outputs if they cannot be read, and the number of calls.

    Passages among the inputs are numbered. No history of calls is kept.

    Raises:
        LanguageModelError: it does not answer; the cause is the error of DSPy's.
    """
    try:
        with dspy.context(lm=lm), without_history():
            reply = ask_until_read(predictor, number_passages(inputs)[0])
    except LMError as error:
        raise as_language_model_error(error, lm) from error
    return reply.prediction, reply.usage.asked


def teacher_identity(lm: dspy.BaseLM, predictor: dspy.Predict, *more: object) -> list[object]:
    """What decides the replies of a language model to a predictor, as JSON values."""
    state = {name: value for name, value in predictor.dump_state().items() if name in ("demos", "signature")}
    return [lm_name(lm), lm_settings(lm), state, *more]
