"""A language model as the author of data: labels, transcripts and questions."""

from __future__ import annotations

from typing import Any

import dspy
from dspy.utils.exceptions import LMError

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
