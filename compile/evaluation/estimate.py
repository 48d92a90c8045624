"""What a run would cost, before anything is spent: programs are run with the embedded reader, which is free."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import dspy
from pydantic import BaseModel

from knowgap.compiling.evaluation.metrics import JUDGING_CALLS, Metrics, named_metrics
from knowgap.compiling.evaluation.provenance import lm_name
from knowgap.compiling.evaluation.quiet import quiet
from knowgap.compiling.evaluation.runner import check_examples, run_example
from knowgap.compiling.evaluation.shared_cache import cache_results
from knowgap.errors import LanguageModelError, UsageError
from knowgap.programs.base import Program
from knowgap.programs.trace.usage import Prices, UsageTracker, dollars, token_prices, track_usage, without_history

__all__ = ["JUDGING_TOKENS", "Estimate", "QuestionCost", "estimate_evaluation", "measure_question"]

JUDGING_TOKENS = (600, 150)
"""Prompt and completion tokens of a call that judges an answer, at most."""

_QUESTIONS = 4  # questions that are asked of each program


class Estimate(BaseModel, extra="forbid"):
    """What a run would cost if no answer is used twice; of a study, what it would cost at most.

    Attributes:
        trials: trials in all; 1 for an evaluation, 0 for an optimizer of DSPy's.
        questions: questions of each.
        bootstrapping: times that training questions are asked for demonstrations.
        scoring: questions that are asked for the scores before and after.
        calls: calls to the language model.
        prompt_tokens: words and marks of all prompts, as the embedded reader counts them; most tokenizers count more.
        completion_tokens: words and marks of all answers.
        money: US dollars; None where the price is not known.
        measured: questions that were asked of the embedded reader for this estimate.
    """

    trials: int = 1
    questions: int
    bootstrapping: int = 0
    scoring: int = 0
    calls: int
    prompt_tokens: int
    completion_tokens: int
    money: float | None
    measured: int

    def __str__(self) -> str:
        money = "price not known" if self.money is None else f"${self.money:.2f}"
        tokens = f"{self.prompt_tokens:,} prompt and {self.completion_tokens:,} completion tokens"
        bound, runs = ("at most", f"{self.trials} trials of ") if self.trials > 1 else ("about", "")
        return f"{bound} {self.calls:,} calls, {tokens}, {money}: {runs}{self.questions} questions"


class QuestionCost(NamedTuple):
    """Means per question: calls, prompt tokens, completion tokens; and how many questions they were measured on."""

    calls: float
    prompt_tokens: float
    completion_tokens: float
    measured: int

    def estimate(
        self,
        questions: int,
        judged: int,
        *,
        lm: dspy.BaseLM | None,
        prices: Prices | None,
        trials: int = 1,
        bootstrapping: int = 0,
        scoring: int = 0,
        longer: float = 1.0,
    ) -> Estimate:
        """What a run would cost.

        Args:
            questions: as in `Estimate`.
            judged: calls that judge answers.
            lm: whose prices count.
            prices: US dollars per million prompt and completion tokens; DSPy's table where absent.
            trials: as in `Estimate`.
            bootstrapping: as in `Estimate`.
            scoring: as in `Estimate`.
            longer: how many times longer prompts are than measured.
        """
        asked = trials * questions + bootstrapping + scoring
        prompt = round(self.prompt_tokens * asked * longer) + judged * JUDGING_TOKENS[0]
        completion = round(self.completion_tokens * asked) + judged * JUDGING_TOKENS[1]
        known = prices or token_prices(lm_name(lm))
        return Estimate(
            trials=trials,
            questions=questions,
            bootstrapping=bootstrapping,
            scoring=scoring,
            calls=round(self.calls * asked) + judged,
            prompt_tokens=prompt,
            completion_tokens=completion,
            money=dollars(prompt, completion, known) if known is not None else None,
            measured=self.measured,
        )


def measure_question(
    program: Program, candidates: Iterable[Program], examples: Sequence[dspy.Example], ids: Sequence[str], seed: int
) -> QuestionCost:
    """Ask the embedded reader a few questions with each candidate, which are variants of `program`.

    Raises:
        UsageError: the program fails on all of them.
    """
    from knowgap.lms import extractive_lm

    chosen = random.Random(seed).sample(range(len(ids)), min(_QUESTIONS, len(ids)))
    tracker, asked = UsageTracker(), 0
    with quiet(), without_history(), dspy.context(lm=extractive_lm(cache=False)):
        for candidate in candidates:
            with cache_results(candidate) as cached, track_usage(tracker):
                try:
                    records = [run_example(cached, examples[i], ids[i], {}) for i in chosen]
                except LanguageModelError as error:
                    raise UsageError(
                        f"no estimate for {program.name}: the embedded reader, which stands in for the language model, "
                        f"does not answer all of its prompts ({error.__cause__ or error}); ask a few questions "
                        "(--limit 3), and multiply what they cost"
                    ) from error
            asked += sum(not record.error for record in records)
    if not asked:
        raise UsageError(f"{program.name} fails on every question that was tried: there is nothing to estimate from")
    spent = tracker.usage
    return QuestionCost(spent.calls / asked, spent.prompt_tokens / asked, spent.completion_tokens / asked, asked)


def estimate_evaluation(
    program: Program,
    examples: Sequence[dspy.Example],
    metrics: Metrics = ("exact_match", "f1"),
    *,
    lm: dspy.BaseLM | None = None,
    prices: Prices | None = None,
    seed: int = 0,
) -> Estimate:
    """Estimate what `evaluate` would cost with a language model, without asking it anything.

    The embedded reader answers a few of the questions; calls and tokens are counted and scaled up. It takes other paths
    than a language model would.

    Args:
        program: stays as it is.
        examples: the questions.
        metrics: those that judge answers by a language model cost calls as well.
        lm: whose prices count; none are known without it.
        prices: US dollars per million prompt and completion tokens; DSPy's table where absent.
        seed: of the choice of questions.

    Raises:
        UsageError: no questions, or a program that fails on all of them.
    """
    ids = check_examples(examples)
    cost = measure_question(program, [program], examples, ids, seed)
    judged = len(ids) * sum(JUDGING_CALLS.get(name, 0) for name in named_metrics(metrics))
    return cost.estimate(len(ids), judged, lm=lm, prices=prices)
