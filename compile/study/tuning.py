"""Tune a program: one Optuna study over its hyperparameters and demonstrations, which can be continued and shared."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import dspy
import orjson

from knowgap.arguments import checked
from knowgap.compile.evaluation.evaluator import Progress, named_metrics
from knowgap.compile.evaluation.metrics import Metric
from knowgap.compile.evaluation.metrics.missing_gold import check_gold
from knowgap.compile.evaluation.provenance import (
    digest,
    examples_digest,
    lm_name,
    lm_settings,
    outside_parts,
    retriever_facts,
    state_of,
)
from knowgap.compile.evaluation.quiet import quiet
from knowgap.compile.evaluation.runner import check_examples, resolve_lm
from knowgap.compile.evaluation.shared_cache import cache_results, lm_cache
from knowgap.compile.evaluation.statistics import Comparison
from knowgap.compile.study.config import Budget, DemoConfig, StudyConfig
from knowgap.compile.study.initial_trials import make_set_up
from knowgap.compile.study.search_space import SearchSpace
from knowgap.compile.study.shared_study import shared_study
from knowgap.compile.study.summary import StudyFacts, read_study
from knowgap.compile.study.trials import TrialResult, choose
from knowgap.compile.study.worker import TrialSeededSampler, Worker
from knowgap.errors import StudyError, UsageError
from knowgap.programs.base import Program
from knowgap.programs.trace.usage import without_history

if TYPE_CHECKING:
    from optuna import Study

__all__ = ["Tuning", "tune"]

P = TypeVar("P", bound=Program)


@dataclass(frozen=True)
class Tuning(StudyFacts, Generic[P]):
    """The result of a study, besides the facts about it.

    Attributes:
        program: a copy of the program with the hyperparameters and demonstrations of the chosen trial.
        questions: ids of the dev questions, in the order of the trials' scores.
        stopped: why the study ended: "trials", or the limit that was reached.
        base: the program that was tuned.
    """

    program: P
    questions: list[str]
    stopped: str
    base: P

    def __repr__(self) -> str:
        best, base = self.best, super().paper
        before = f"; {base.score:.3f} with the paper's settings" if base is not None else ""
        return (
            f"Tuning({self.base.name}: {len(self.trials)} trials, ended by: {self.stopped}; "
            f"trial {best.number} is chosen with {self.metric} {best.score:.3f} on dev{before})"
        )

    @property
    def best(self) -> TrialResult:
        """The chosen trial."""
        return cast("TrialResult", self.chosen)

    @property
    def paper(self) -> TrialResult:
        """The trial with the paper's settings and no demonstrations."""
        paper = super().paper
        if paper is None:
            raise StudyError("the trial with the paper's settings is not finished: continue the study")
        return paper

    def choose(self, rule: str = "best") -> P:
        """The program of another trial, by a rule of `knowgap.compile.study.trials.choose`."""
        return self.program_of(choose(self.trials, rule, self.cost))

    def program_of(self, trial: TrialResult) -> P:
        """The program with the hyperparameters and demonstrations of a trial."""
        return self.pool.apply(cast("P", self.base.deepcopy().configure(**trial.values)), trial.demonstrations)

    def reread(self, rule: str = "best") -> Tuning[P]:
        """The result with the trials that other processes have finished since, chosen by a rule."""
        return _conclude(self.base, self.study, self.questions, rule, self.cost, self.stopped)

    def changes(self) -> dict[str, tuple[str, str]]:
        """Hyperparameters and numbers of demonstrations that changed, by name: before and after."""
        before, after = _settings(self.base), _settings(self.program)
        return {name: (before[name], after[name]) for name in before if before[name] != after[name]}

    def gain(self, before: TrialResult | None = None) -> Comparison:
        """The chosen trial against another, by default the paper's settings, on the dev questions, which flatters."""
        return super().gain(before or self.paper)


@checked
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
    num_threads: int = 4,
    progress: Progress | None = None,
    study: StudyConfig | None = None,
    demos: DemoConfig | None = None,
    budget: Budget | None = None,
) -> Tuning[P]:
    """Search for the hyperparameters and demonstrations with the best score on the dev questions.

    The study begins with the paper's settings, the program's own, those in `study.start`, a δ calibrated on the
    training questions, and bootstrapped demonstrations. Then Optuna's TPE draws.

    The same call continues a study: `n_trials` counts all its finished trials, and what a process was running when it
    died is run again. Several processes may make the call at the same time, on one machine over a file, on many over a
    database server. They share the trials; the study may then end with as many more trials as others were running. With
    one process, a study follows from its seed; with several it does not. See `knowgap.compile.study.shared_study`.

    Args:
        program: what is tuned; it stays as it is.
        devset: the questions on which trials are compared.
        trainset: the questions from which demonstrations are bootstrapped and on which δ is calibrated.
        metric: a function or the name of a metric.
        n_trials: number of finished trials (complete or pruned) at which the study ends.
        study_name: the name under which the study is kept; the program's name by default.
        storage: see `knowgap.compile.study.storage.open_storage`; None keeps the study in memory.
        seed: of every draw.
        lm: the language model; by default the one that DSPy is configured with.
        num_threads: questions at a time; the study does not depend on it.
        progress: called after every question with finished trials, trials in all, and what is going on.
        study: how the study searches.
        demos: whether trials choose demonstrations, and how these are made.
        budget: limits that end the study cleanly.

    Raises:
        UsageError: an argument that does not fit.
        StudyError: a study that cannot be opened or continued, or no complete trial.
        LanguageModelUnreachable: the language model is lost; the same call goes on from here.
    """
    if n_trials < 1:
        raise UsageError(f"n_trials={n_trials}: at least one trial is needed")
    config, limits, train = study or StudyConfig(), budget or Budget(), list(trainset or ())
    name, measure = next(iter(named_metrics(metric).items()))
    ids, model = check_examples(devset, "devset"), resolve_lm(lm, program)
    check_gold(devset, program.retriever, name)
    demos = (demos or DemoConfig()).resolved(model)
    limits.check_prices(lm_name(model))
    SearchSpace(program, config, known=config.start)  # refuses what does not fit before anything is opened
    questions = list(zip(ids, devset, strict=True))
    random.Random(seed).shuffle(questions)
    identity = _identity(program, devset, train, model)
    identity |= {"metric": name, "seed": seed, "demonstrations": demos.model_dump(), **config.identity()}
    report = partial(_report_bootstrapping, progress, n_trials)
    with (
        _reusing(program, model, config) as cached,
        shared_study(
            study_name or program.name,
            storage,
            config=config,
            fingerprint=orjson.loads(orjson.dumps(identity, default=str)),
            make=partial(
                make_set_up, cached, train, measure, config, demos, seed=seed, prices=limits.prices, progress=report
            ),
        ) as (optuna_study, set_up),
    ):
        optuna_study.sampler = TrialSeededSampler(seed)
        worker = Worker(
            study=optuna_study,
            set_up=set_up,
            program=cached,
            space=SearchSpace(program, config, num_demo_sets=set_up.pool.sizes, known=set_up.known),
            questions=questions,
            metric=(name, measure),
            n_trials=n_trials,
            num_threads=num_threads,
            config=config,
            budget=limits,
            progress=progress,
        )
        return _conclude(program, optuna_study, [each for each, _ in questions], config.rule, config.cost, worker.run())


def _report_bootstrapping(progress: Progress | None, n_trials: int, done: int, total: int, text: str) -> None:
    if progress is not None:
        progress(0, n_trials, f"bootstrapping demonstrations: {done} {text}")


def _conclude(base: P, study: Study, questions: list[str], rule: str, cost: str, stopped: str) -> Tuning[P]:
    facts = read_study(study, cost=cost)
    best = choose(facts.trials, rule, cost)
    program = facts.pool.apply(cast("P", base.deepcopy().configure(**best.values)), best.demonstrations)
    fields: dict[str, Any] = {**vars(facts), "chosen": best}
    return Tuning(**fields, program=program, questions=questions, stopped=stopped, base=base)


def _identity(
    program: Program, devset: Sequence[dspy.Example], trainset: Sequence[dspy.Example], model: dspy.BaseLM
) -> dict[str, Any]:
    """What a study is about, apart from how it searches."""
    return {
        "program": [program.name, digest(state_of(program)), *filter(None, [outside_parts(program)])],
        "dev questions": examples_digest(devset),
        "training questions": examples_digest(trainset),
        "language model": [lm_name(model), lm_settings(model)],
        "index": [retriever_facts(program.retriever).get(key) for key in ("name", "digest", "corpus_digest")],
    }


@contextmanager
def _reusing(program: P, model: Any, config: StudyConfig) -> Iterator[P]:
    """Let DSPy ask the model, and yield the program, both with earlier results used again if the study does so."""
    folder = config.cache_dir / "lm" if config.reuse and config.cache_dir is not None else None
    asked = model.copy(cache=config.reuse) if hasattr(model, "cache") else model
    reused = cache_results(program, config.cache_dir) if config.reuse else nullcontext(program)
    with reused as cached, quiet(), lm_cache(folder), without_history(), dspy.context(lm=asked):
        yield cached


def _settings(program: Program) -> dict[str, str]:
    """Hyperparameters and numbers of demonstrations, by name, as text."""
    values = {name: str(value) for name, value in program.values().items()}
    shown = {f"demonstrations of {name}": str(len(cast("Any", p).demos)) for name, p in program.named_predictors()}
    return values | shown
