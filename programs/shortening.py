"""Shortens an answer that is longer than its style allows: small models tend to write whole sentences."""

from __future__ import annotations

from typing import Any

import dspy

from knowgap.programs.replies.asking import lm_of
from knowgap.programs.replies.text import fits_style, known_text
from knowgap.programs.trace.recorder import current_recorder
from knowgap.programs.trace.steps import Reasoned
from knowgap.signatures import ShortenAnswer
from knowgap.signatures.values import is_unknown

SHORTEN = dspy.Predict(ShortenAnswer)


def writer_of(program: Any) -> Any:
    """The model that writes the answer: the configured one, unless all predictors have their own; perhaps None."""
    own = [predictor.lm for predictor in program.predictors()]
    return lm_of(SHORTEN, {}) if None in own or not own else own[-1]


def shorten_answer(program: Any, answer: str) -> str:
    """The answer or, if it is longer than the program's style allows, what one more call makes of it."""
    question = current_recorder().question
    fits = not answer or is_unknown(answer) or fits_style(answer, program.style, question)
    if fits or program.calls_left < 1 or (lm := writer_of(program)) is None:
        return answer
    short = known_text(program.ask(SHORTEN, last=True, lm=lm, question=question, text=answer, style=program.wording))
    if not (fits_style(short, program.style) or 0 < len(short) < len(answer)):
        return answer
    program.record(Reasoned(what="answer before it was shortened", text=answer))
    return short
