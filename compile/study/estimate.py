"""What a study would cost, before anything is spent: the program is run with the embedded reader, which is free."""

from __future__ import annotations

import random
from collections.abc import Sequence

import dspy
from pydantic import BaseModel

from knowgap.compile.evaluation.provenance import lm_name
from knowgap.compile.evaluation.quiet import quiet
from knowgap.compile.evaluation.runner import check_examples, run_example
from knowgap.compile.evaluation.shared_cache import cache_results
from knowgap.compile.study.config import DemoConfig, StudyConfig
from knowgap.compile.study.search_space import SearchSpace
from knowgap.errors import UsageError
from knowgap.programs.base import Program
from knowgap.programs.trace.usage import Prices, UsageTracker, dollars, token_prices, track_usage

__all__ = ["Estimate", "estimate_study"]

_SETTINGS, _QUESTIONS = 4, 4  # settings that are tried out, dev questions that are asked under each


class Estimate(BaseModel, extra="forbid"):
    """What a study would cost at most: every trial asks every question, and no answer is used twice.

    Attributes:
        trials: trials in all.
        questions: dev questions of each.
        bootstrapping: training questions that are asked once for demonstrations.
        calls: calls to the language model.
        prompt_tokens: words and marks of all prompts, as the embedded reader counts them; most tokenizers count more.
        completion_tokens: words and marks of all answers.
        money: US dollars; None where the price is not known.
        measured: questions that were asked of the embedded reader for this estimate.
    """

    trials: int
    questions: int
    bootstrapping: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    money: float | None
    measured: int

    def __str__(self) -> str:
        money = "price not known" if self.money is None else f"${self.money:.2f}"
        tokens = f"{self.prompt_tokens:,} prompt and {self.completion_tokens:,} completion tokens"
        return f"at most {self.calls:,} calls, {tokens}, {money}: {self.trials} trials of {self.questions} questions"


def estimate_study(
    program: Program,
    *,
    devset: Sequence[dspy.Example],
    trainset: Sequence[dspy.Example] | None = None,
    n_trials: int = 20,
    lm: dspy.BaseLM | None = None,
    study: StudyConfig | None = None,
    demos: DemoConfig | None = None,
    prices: Prices | None = None,
    seed: int = 0,
) -> Estimate:
    """Estimate what `tune` would cost with a language model, without asking it anything.

    The embedded reader answers a few dev questions under the program's settings and under some drawn from the search
    space; calls and tokens are counted and scaled up. It takes other paths than a language model would, and
    demonstrations are taken to be half of `demos.max_demos` examples, each as long as the prompt itself.

    Args:
        program: stays as it is.
        devset: the questions of every trial.
        trainset: the questions that demonstrations are bootstrapped from.
        n_trials: trials in all.
        lm: whose prices count; none are known without it.
        study: how the study searches.
        demos: whether trials choose demonstrations, and how these are made.
        prices: US dollars per million prompt and completion tokens; DSPy's table where absent.
        seed: of the draws.

    Raises:
        UsageError: no questions, or a program that fails on all of them.
    """
    from optuna import create_study
    from optuna.samplers import RandomSampler

    from knowgap.lms import extractive_lm

    ids = check_examples(devset, "devset")
    chosen = random.Random(seed).sample(range(len(ids)), min(_QUESTIONS, len(ids)))
    space = SearchSpace(program, study)
    demos = (demos or DemoConfig()).resolved(lm)
    tracker, asked = UsageTracker(), 0
    with quiet(), dspy.context(lm=extractive_lm(cache=False), disable_history=True), cache_results(program) as cached:
        draws = create_study(sampler=RandomSampler(seed=seed))
        for number in range(_SETTINGS):
            values = program.values() if number == 0 else space.suggest(draws.ask())[0]
            candidate = cached.deepcopy().configure(**values)
            with track_usage(tracker):
                records = [run_example(candidate, devset[i], ids[i], {}) for i in chosen]
            asked += sum(not record.error for record in records)
    if not asked:
        raise UsageError(f"{program.name} fails on every question that was tried: there is nothing to estimate from")
    spent = tracker.usage
    train = len(trainset or ()) if demos.mode != "none" else 0
    rounds = n_trials * len(ids) + train
    longer = 1 + demos.max_demos / 2 if train else 1
    prompt = round(spent.prompt_tokens / asked * rounds * longer)
    completion = round(spent.completion_tokens / asked * rounds)
    known = prices or token_prices(lm_name(lm))
    return Estimate(
        trials=n_trials,
        questions=len(ids),
        bootstrapping=train,
        calls=round(spent.calls / asked * rounds),
        prompt_tokens=prompt,
        completion_tokens=completion,
        money=dollars(prompt, completion, known) if known is not None else None,
        measured=asked,
    )
