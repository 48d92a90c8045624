"""Hyperparameters and demonstrations together: one Optuna study over both, resumable, prunable, never paying twice."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import dspy
import orjson

from knowgap.compile.demonstrations.demo_sets import DemoSets
from knowgap.compile.evaluation.evaluator import Progress, named_metrics
from knowgap.compile.evaluation.metrics import Metric
from knowgap.compile.evaluation.provenance import (
    digest,
    examples_digest,
    lm_name,
    lm_settings,
    retriever_facts,
    state_of,
)
from knowgap.compile.evaluation.quiet import quiet
from knowgap.compile.evaluation.results import COSTS
from knowgap.compile.evaluation.runner import check_examples, resolve_lm
from knowgap.compile.evaluation.shared_cache import lm_cache
from knowgap.compile.evaluation.shared_cache import share as sharing
from knowgap.compile.evaluation.statistics import Comparison, paired_comparison
from knowgap.compile.study.budget import Budget, Meter, Spent, metering
from knowgap.compile.study.initial_trials import bootstrap_pool, calibrated_values, initial_trials
from knowgap.compile.study.search_space import Space
from knowgap.compile.study.shared_study import Mode, SetUp, shared_study
from knowgap.compile.study.storage import HEARTBEAT
from knowgap.compile.study.summary import importances
from knowgap.compile.study.trials import PAPER, TrialResult, check_rule, choose, finished, front
from knowgap.compile.study.worker import TrialSeededSampler, Worker
from knowgap.errors import StudyError, UnknownName, UsageError
from knowgap.lms.providers import EXTRACTIVE
from knowgap.programs.base import Program

if TYPE_CHECKING:
    from optuna import Study

__all__ = ["Calls", "Tuning", "tune"]

P = TypeVar("P", bound=Program)


@dataclass(frozen=True)
class Calls:
    """Calls to the language model, with and without sharing.

    Attributes:
        spent: calls that reached it.
        without_sharing: calls if no answer and no earlier trial's result had been used again.
        without_pruning: the same if, besides, every trial had asked every dev question (extrapolated).
    """

    spent: int
    without_sharing: int
    without_pruning: int


@dataclass(frozen=True)
class Tuning(Generic[P]):
    """What a study found.

    Attributes:
        program: a copy of the program with the chosen settings and demonstrations.
        best: the chosen trial.
        trials: all finished trials, in their order.
        study: Optuna's study.
        questions: ids of the dev questions, in the order of the trials' scores.
        metric: name of the metric.
        cost: what counted as cost.
        setup: what bootstrapping demonstrations cost.
        stopped: why the study ended: "trials", or which limit was reached.
    """

    program: P
    best: TrialResult
    trials: list[TrialResult]
    study: Study
    questions: list[str]
    metric: str
    cost: str
    setup: Spent
    stopped: str
    base: P
    pool: DemoSets

    @property
    def paper(self) -> TrialResult:
        """The trial with the paper's settings and no demonstrations."""
        found = [trial for trial in self.trials if trial.label == PAPER]
        if not found:
            raise StudyError("the trial with the paper's settings was not finished")
        return found[0]

    @property
    def front(self) -> list[TrialResult]:
        """The trials that no other beats in both score and cost, cheapest first."""
        return front(self.trials, self.cost)

    @property
    def spent(self) -> Spent:
        """What the whole study cost, as far as trials ended."""
        return sum((trial.spent for trial in self.trials), self.setup)

    @property
    def calls(self) -> Calls:
        """Calls to the language model, with and without sharing."""
        by_number = {trial.number: trial for trial in self.trials}
        originals = [by_number[t.number if t.same_as is None else t.same_as] for t in self.trials]
        return Calls(
            spent=self.spent.calls,
            without_sharing=self.setup.asked + sum(trial.spent.asked for trial in originals),
            without_pruning=self.setup.asked
            + round(sum(trial.costs["lm_calls"] for trial in originals) * len(self.questions)),
        )

    def choose(self, rule: str = "best") -> P:
        """A program by another rule; see `knowgap.compile.study.trials.choose`."""
        return self.program_of(choose(self.trials, rule, self.cost))

    def program_of(self, trial: TrialResult) -> P:
        """The program that a trial asked."""
        return _program_of(self.base, self.pool, trial)

    def changes(self) -> dict[str, tuple[str, str]]:
        """Hyperparameters, and numbers of demonstrations, before and after, by name; only those that changed."""
        before, after = _in_words(self.base), _in_words(self.program)
        return {name: (before[name], after[name]) for name in before if before[name] != after[name]}

    def gain(self) -> Comparison:
        """The chosen trial against the paper's settings on the dev questions, on which it was chosen: it flatters."""
        return paired_comparison(self.metric, self.paper.scores, self.best.scores)

    def importances(self) -> dict[str, float]:
        """How much each parameter decides the score (Optuna's PED-ANOVA), most important first; empty if unknown."""
        return importances(self.study)


def tune(
    program: P,
    *,
    devset: Sequence[dspy.Example],
    trainset: Sequence[dspy.Example] | None = None,
    metric: Metric | str,
    n_trials: int = 20,
    study_name: str = "",
    storage: str | Path | None = None,
    seed: int = 0,
    lm: dspy.BaseLM | None = None,
    teacher_lm: dspy.BaseLM | None = None,
    num_threads: int = 4,
    timeout: float | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
    prune: bool = True,
    mode: Mode = "single",
    cost: str = "lm_calls",
    rule: str = "best",
    demos: str | None = "auto",
    num_demo_sets: int = 6,
    max_demos: int = 4,
    include: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    start: Sequence[Mapping[str, Any]] = (),
    share: bool = True,
    cache_dir: str | Path | None = None,
    heartbeat: int = HEARTBEAT,
) -> Tuning[P]:
    """Search for the hyperparameters and demonstrations that serve best on the dev questions.

    The study begins with the paper's settings, the program's own, those in `start`, a δ calibrated on the training
    questions, and bootstrapped demonstrations; then it draws. Continuing is the same call: `n_trials` counts all
    finished trials of the study, and what ran in a process that died is run again. Several processes may make the
    same call at the same time, on one machine over a file, on many over a database server; they share the trials.

    Args:
        program: stays as it is.
        devset: the questions that trials are compared on.
        trainset: the questions that demonstrations are bootstrapped from and δ is calibrated on.
        metric: a function or the name of a metric.
        n_trials: finished trials (complete or pruned) at the end, those of earlier calls included.
        study_name: under which it is kept and continued; the program's name where absent.
        storage: see `knowgap.compile.study.storage.open_storage`; None keeps the study in memory.
        seed: of every draw; with one process, the same seed gives the same study, interrupted or not.
        lm: the language model; the one DSPy is configured with where absent.
        teacher_lm: the model that makes the demonstrations; `lm` where absent.
        num_threads: questions at a time; the study does not depend on it.
        timeout: seconds after which this call ends.
        budget: further limits, which end the study cleanly.
        progress: called after every question with finished trials, trials in all, and what is going on.
        prune: stop a trial that does worse than the best one (Wilcoxon signed-rank test on the questions asked so far),
            or that can be expected to gain less than 0.01 over it; see `knowgap.compile.study.pruning`.
        mode: "single" maximises the score; "pareto" also minimises the cost, and does not prune.
        cost: what counts as cost, by the names of `knowgap.compile.evaluation.results.COSTS`.
        rule: which trial is chosen; see `knowgap.compile.study.trials.choose`.
        demos: "pool" lets trials choose among demonstration sets; None leaves demonstrations as they are; "auto" is
            "pool", but None under the embedded reader, which takes no notice of demonstrations.
        num_demo_sets: sets for each predictor at most.
        max_demos: demonstrations in a set at most.
        include: search over these hyperparameters alone.
        exclude: leave these alone.
        ranges: (low, high) for numbers, by name.
        start: hyperparameters to try early, as mappings from name to value.
        share: use answers of the language model, retrieved lists and scores of reranker and entailment model again;
            a language model that samples is then asked once for each prompt.
        cache_dir: a folder where they are shared with other processes; in memory, and in DSPy's own cache, where
            absent.
        heartbeat: seconds between signs of life on a database server.

    Raises:
        UsageError: an argument that does not fit.
        StudyError: a study that cannot be opened or continued, or no complete trial.
        LanguageModelUnreachable: the language model is lost; the same call goes on from here.
    """
    if n_trials < 1:
        raise UsageError(f"n_trials={n_trials}: at least one trial is needed")
    if mode not in ("single", "pareto"):
        raise UnknownName.among("mode", mode, ("single", "pareto"))
    if demos not in ("auto", "pool", None):
        raise UsageError(f'demos={demos!r}: it is "auto", "pool", or None to leave demonstrations alone')
    if cost not in COSTS:
        raise UnknownName.among("cost", cost, COSTS)
    if cost == "seconds" and share and (mode == "pareto" or rule != "best"):
        raise UsageError("seconds mean nothing where answers are shared: share=False, or cost='critical_calls'")
    check_rule(rule)
    name, measure = next(iter(named_metrics(metric).items()))
    ids, train, model = check_examples(devset, "devset"), list(trainset or ()), resolve_lm(lm, program)
    if demos == "auto":
        demos = None if lm_name(model) == EXTRACTIVE else "pool"
    limits = (budget or Budget()).model_copy()
    if timeout is not None:
        limits.seconds = min(timeout, limits.seconds or timeout)
    pruning = prune and mode == "single"
    scope: dict[str, Any] = {"include": include, "exclude": exclude, "ranges": ranges}
    Space(program, known=start, **scope)  # refuses what does not fit before anything is opened
    fingerprint = {
        "program": [program.name, digest(state_of(program))],
        "dev questions": examples_digest(devset),
        "training questions": examples_digest(train),
        "metric": name,
        "language model": [lm_name(model), lm_settings(model)],
        "index": [
            retriever_facts(program.retriever).get(key) for key in ("name", "digest", "corpus_digest", "quality")
        ],
        "seed": seed,
        "mode": [mode, cost if mode == "pareto" else "", pruning],
        "demonstrations": [demos, num_demo_sets, max_demos],
        "search space": [include, list(exclude), ranges, list(start)],
    }
    meter = Meter(limits.prices)
    asked, close = sharing(program, cache_dir) if share else (program, lambda: None)

    def make_set_up() -> SetUp:
        def report(done: int, total: int, text: str) -> None:
            if progress is not None:
                progress(0, n_trials, f"bootstrapping demonstrations: {done} {text}")

        pool = DemoSets()
        if demos:
            with metering(meter):
                pool = bootstrap_pool(
                    asked,
                    train,
                    measure,
                    teacher_lm=teacher_lm,
                    num_sets=num_demo_sets,
                    max_demos=max_demos,
                    seed=seed,
                    progress=report,
                )
        calibrated = calibrated_values(asked, train) if "delta" not in exclude else []
        known = [dict(values) for values in [*start, *calibrated]]
        space = Space(program, demonstrations=pool.sizes, known=known, **scope)
        initial = initial_trials(program, space, pool, start, calibrated)
        return SetUp(initial=initial, known=known, spent=meter.spent, pool=pool)

    with ExitStack() as stack:
        stack.callback(close)
        stack.enter_context(quiet())
        stack.enter_context(lm_cache(Path(cache_dir) / "lm" if share and cache_dir is not None else None))
        stack.enter_context(dspy.context(lm=model.copy(cache=share) if hasattr(model, "cache") else model))
        study, set_up = stack.enter_context(
            shared_study(
                study_name or program.name,
                storage,
                mode=mode,
                cost=cost,
                heartbeat=heartbeat,
                fingerprint=orjson.loads(orjson.dumps(fingerprint, default=str)),
                make=make_set_up,
            )
        )
        pool = set_up.pool
        study.sampler = TrialSeededSampler(seed)
        questions = list(zip(ids, devset, strict=True))
        random.Random(seed).shuffle(questions)
        stopped = Worker(
            study=study,
            set_up=set_up,
            program=asked,
            space=Space(program, demonstrations=pool.sizes, known=set_up.known, **scope),
            questions=questions,
            metric=(name, measure),
            n_trials=n_trials,
            num_threads=num_threads,
            budget=limits,
            prune=pruning,
            cost=cost if mode == "pareto" else None,
            progress=progress,
        ).run()
        trials = finished(study)
    best = choose(trials, rule, cost)
    return Tuning(
        program=_program_of(program, pool, best),
        best=best,
        trials=trials,
        study=study,
        questions=[question for question, _ in questions],
        metric=name,
        cost=cost,
        setup=set_up.spent,
        stopped=stopped,
        base=program,
        pool=pool,
    )


def _program_of(base: P, pool: DemoSets, trial: TrialResult) -> P:
    return pool.apply(cast("P", base.deepcopy().configure(**trial.values)), trial.demonstrations)


def _in_words(program: Program) -> dict[str, str]:
    values = {name: str(value) for name, value in program.values().items()}
    shown = {f"demonstrations of {name}": str(len(cast("Any", p).demos)) for name, p in program.named_predictors()}
    return values | shown
