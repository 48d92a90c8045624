"""What a run will cost: three of its questions are asked, and what they cost is multiplied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.evaluator import evaluate
from knowgap.compiling.evaluation.metrics import Metrics
from knowgap.compiling.evaluation.provenance import lm_name
from knowgap.compiling.evaluation.runner import check_examples, resolve_lm
from knowgap.compiling.run import Run
from knowgap.errors import UsageError
from knowgap.lms.metering import UsageTracker, dollars, token_prices, track_usage
from knowgap.programs.base import Program

ASKED = 3
"""Questions that are asked for an estimate."""


class Estimate(BaseModel, extra="forbid"):
    """About what it costs to ask `questions` questions if no answer comes from a cache.

    `calls` of the language model, tokens of all prompts and replies, and `money` in US dollars, None if the price of
    the language model is not known.
    """

    questions: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    money: float | None = None

    def scaled(self, questions: int) -> Estimate:
        """What another number of such questions costs."""
        share = questions / self.questions
        counts = {n: math.ceil(getattr(self, n) * share) for n in ("calls", "prompt_tokens", "completion_tokens")}
        return Estimate(questions=questions, **counts, money=None if self.money is None else self.money * share)


def estimate(
    program: Program | dspy.Module, questions: Sequence[dspy.Example], metrics: Metrics = "f1", *, run: Run = Run()
) -> Estimate:
    """Estimate what it costs to ask a program questions, with the metrics that ask a language model.

    Three of the questions, spread over all of them, are asked.

    Raises:
        UsageError: there are no questions, the program fails on all three, or some of its calls are not counted.

    >>> import knowgap
    >>> from knowgap.compiling import estimate
    >>> data, run = knowgap.load_dataset("sample"), knowgap.Run(lm=knowgap.make_lm("extractive"))
    >>> found = estimate(knowgap.get_program("direct")(), data.questions("dev"), run=run)
    >>> found.calls == found.questions == len(data.questions("dev"))
    True
    """
    check_examples(questions)
    chosen = questions[:: max(1, len(questions) // ASKED)][:ASKED]
    with track_usage(UsageTracker()) as tracker:
        found = evaluate(program, chosen, metrics, run=replace(run, progress=None))
    usage, cannot = tracker.usage, "what it costs cannot be estimated"
    if len(found.failures) == len(chosen):
        raise UsageError(f"{cannot}: {found.failures[0].failure}")
    if usage.uncounted_calls:
        raise UsageError(f"{cannot}: some calls of the language model are not counted")
    read = usage.prompt_tokens + usage.cached_prompt_tokens
    written = usage.completion_tokens + usage.cached_completion_tokens
    prices = token_prices(lm_name(resolve_lm(run.lm)))
    counts = {"calls": usage.asked, "prompt_tokens": read, "completion_tokens": written}
    money = None if prices is None else dollars(read, written, prices)
    return Estimate(questions=len(chosen), **counts, money=money).scaled(len(questions))
