"""Tune programs: one Optuna study over them, their hyperparameters and demonstrations, continued and shared at will."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import dspy
import orjson

from knowgap.compiling.evaluation.metrics import Metric, named_metrics
from knowgap.compiling.evaluation.metrics.missing_gold import check_gold
from knowgap.compiling.evaluation.provenance import (
    digest,
    examples_digest,
    lm_name,
    lm_settings,
    outside_parts,
    retriever_facts,
    state_of,
)
from knowgap.compiling.evaluation.quiet import quiet
from knowgap.compiling.evaluation.runner import check_examples, resolve_lm
from knowgap.compiling.evaluation.shared_cache import lm_cache, share_results
from knowgap.compiling.evaluation.statistics import Comparison
from knowgap.compiling.study.config import Budget, DemoConfig, StudyConfig
from knowgap.compiling.study.initial_trials import bootstrap_demos, make_set_up
from knowgap.compiling.study.search.price_limit import PriceLimit
from knowgap.compiling.study.search.space import SearchSpace, program_prefix
from knowgap.compiling.study.shared_study import shared_study
from knowgap.compiling.study.summary import StudyFacts, read_study
from knowgap.compiling.study.trials import TrialResult, choose
from knowgap.compiling.study.worker import Worker
from knowgap.errors import StudyError, UnknownName, UsageError
from knowgap.lms.metering import token_prices, without_history
from knowgap.programs.base import Program
from knowgap.storage.progress import Progress

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
        bases: the programs that were tuned, by name, as they were.
        limit: what a question may cost in the chosen trial.
    """

    program: P
    questions: list[str]
    stopped: str
    bases: Mapping[str, P]
    limit: PriceLimit

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
    def base(self) -> P:
        """The program of the chosen trial, as it was."""
        return self.bases[self.best.program]

    @property
    def paper(self) -> TrialResult:
        """The trial with the paper's settings, see `StudyFacts.paper`."""
        paper = super().paper
        if paper is None:
            raise StudyError("the trial with the paper's settings is not finished: continue the study")
        return paper

    def choose(self, rule: str = "best") -> P:
        """The program of another trial, by a rule of `knowgap.compiling.study.trials.choose`."""
        return self.program_of(choose(self.trials, rule, self.cost, self.limit))

    def program_of(self, trial: TrialResult) -> P:
        """The program with the hyperparameters and demonstrations of a trial."""
        program = cast("P", self.bases[trial.program].deepcopy().configure(**trial.values))
        return self.pool_of(trial.program).apply(program, trial.demonstrations)

    def reread(self, rule: str = "best") -> Tuning[P]:
        """The result with the trials that other processes have finished since, chosen by a rule."""
        return _conclude(self.bases, self.study, self.questions, rule, self.cost, self.limit, self.stopped)

    def changes(self) -> dict[str, tuple[str, str]]:
        """Hyperparameters and numbers of demonstrations that changed, by name: before and after."""
        before, after = _settings(self.base), _settings(self.program)
        return {name: (before[name], after[name]) for name in before if before[name] != after[name]}

    def gain(self, before: TrialResult | None = None) -> Comparison:
        """The chosen trial against another, by default the paper's settings, on the dev questions, which flatters."""
        return super().gain(before or self.paper)


def tune(
    program: P | None = None,
    *,
    programs: Sequence[P] = (),
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

    With several programs, the study searches for the best of them as well. It tries each with its paper's settings;
    those that do worse get no more trials, see `knowgap.compiling.study.search.racing`. Demonstrations are
    bootstrapped for a program that is still in the race then. Answers, retrieved lists and scores are shared between
    programs where prompts and queries are the same.

    The same call continues a study: `n_trials` counts all its finished trials, and what a process was running when it
    died is run again. Several processes may make the call at the same time, on one machine over a file, on many over a
    database server. They share the trials; the study may then end with as many more trials as others were running. With
    one process, a study follows from its seed; with several it does not. See `knowgap.compiling.study.shared_study`.

    Args:
        program: what is tuned; it stays as it is.
        programs: instead of `program`, several with different names, which are compared. The first is the base of the
            comparison: its trial with the paper's settings is always finished, those of the others may be pruned.
        devset: the questions on which trials are compared.
        trainset: the questions from which demonstrations are bootstrapped and on which δ is calibrated.
        metric: a function or the name of a metric.
        n_trials: number of finished trials (complete or pruned) at which the study ends.
        study_name: the name under which the study is kept; by default the program's name, or "programs".
        storage: see `knowgap.compiling.study.storage.open_storage`; None keeps the study in memory.
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
    by_name = _by_name(program, programs, n_trials)
    config, limits, train = study or StudyConfig(), budget or Budget(), list(trainset or ())
    name, measure = next(iter(named_metrics(metric).items()))
    ids, model = check_examples(devset, "devset"), resolve_lm(lm, next(iter(by_name.values())))
    for each in by_name.values():
        check_gold(devset, each.retriever, name)
    demos = (demos or DemoConfig()).resolved(model)
    limit = _price_limit(config, limits, lm_name(model))
    _check_names(by_name, config)
    questions = list(zip(ids, devset, strict=True))
    random.Random(seed).shuffle(questions)
    identity = _identity(by_name, devset, train, model)
    identity |= {"metric": name, "seed": seed, "demonstrations": demos.model_dump(), **config.identity()}
    report = partial(_report_bootstrapping, progress, n_trials)
    bootstrap = partial(bootstrap_demos, train, measure, demos, seed, limits.prices, report)
    with (
        _reusing(by_name, model, config) as cached,
        shared_study(
            study_name or (next(iter(by_name)) if len(by_name) == 1 else "programs"),
            storage,
            config=config,
            fingerprint=orjson.loads(orjson.dumps(identity, default=str)),
            make=partial(make_set_up, cached, train, config, demos, bootstrap),
        ) as (optuna_study, set_up),
    ):
        worker = Worker(
            study=optuna_study,
            set_up=set_up,
            programs=cached,
            bootstrap=bootstrap,
            questions=questions,
            metric=(name, measure),
            n_trials=n_trials,
            seed=seed,
            num_threads=num_threads,
            config=config,
            budget=limits,
            limit=limit,
            progress=progress,
        )
        stopped, ids = worker.run(), [each for each, _ in questions]
        return _conclude(by_name, optuna_study, ids, config.rule, config.cost, limit, stopped)


def _by_name(program: P | None, programs: Sequence[P], n_trials: int) -> dict[str, P]:
    """The programs of a study by name.

    Raises:
        UsageError: there is none, two have the same name, or there are fewer trials than programs.
    """
    several = [*programs] if program is None else [program, *programs]
    by_name = {each.name: each for each in several}
    if not by_name or (program is not None and programs) or len(by_name) < len(several):
        names = ", ".join(each.name for each in several)
        raise UsageError(f"name one program, or programs=[…] with different names: {names or 'there is none'}")
    if n_trials < len(by_name):
        what = "one trial is" if len(by_name) == 1 else f"{len(by_name)} trials, one for each program, are"
        raise UsageError(f"n_trials={n_trials}: at least {what} needed")
    return by_name


def _price_limit(config: StudyConfig, budget: Budget, lm: str) -> PriceLimit:
    budget.check_prices(lm, config.max_cost_per_question)
    prices = budget.prices or token_prices(lm)
    return PriceLimit(config.max_calls_per_question, config.max_cost_per_question, prices)


def _check_names(programs: Mapping[str, Program], config: StudyConfig) -> None:
    """Refuse names of hyperparameters, and values of theirs, that do not fit, before anything is opened."""
    prefixes = {name: program_prefix(name, len(programs)) for name in programs}
    for name in config.named():
        if not name.startswith((*prefixes.values(),)):
            known = [f"{prefixes[each]}{h}" for each, program in programs.items() for h in program.hyperparameters()]
            raise UnknownName.among("hyperparameter of these programs", name, known)
    spaces = []
    for name, program in programs.items():
        own = config.of_program(prefixes[name])
        spaces.append(SearchSpace(program, own, known=own.start, prefix=prefixes[name]))
    if not any(space.is_searchable for space in spaces):
        raise UsageError(f"nothing to search over: {', '.join(programs)} have no hyperparameter to tune")


def _report_bootstrapping(progress: Progress | None, n_trials: int, done: int, total: int, text: str) -> None:
    if progress is not None:
        progress(0, n_trials, f"bootstrapping demonstrations: {done} {text}")


def _conclude(
    bases: Mapping[str, P],
    study: Study,
    questions: list[str],
    rule: str,
    cost: str,
    limit: PriceLimit,
    stopped: str,
) -> Tuning[P]:
    facts = read_study(study, cost=cost)
    best = choose(facts.trials, rule, cost, limit)
    program = cast("P", bases[best.program].deepcopy().configure(**best.values))
    fields: dict[str, Any] = {**vars(facts), "chosen": best}
    return Tuning(
        **fields,
        program=facts.pool_of(best.program).apply(program, best.demonstrations),
        questions=questions,
        stopped=stopped,
        bases=bases,
        limit=limit,
    )


def _identity(
    programs: Mapping[str, Program],
    devset: Sequence[dspy.Example],
    trainset: Sequence[dspy.Example],
    model: dspy.BaseLM,
) -> dict[str, Any]:
    """What a study is about, apart from how it searches."""
    states = [digest(state_of(program)) for program in programs.values()]
    outside = [outside_parts(program) for program in programs.values()]
    retriever = next((p.retriever for p in programs.values() if p.retriever is not None), None)
    return {
        "program": [", ".join(programs), states[0] if len(states) == 1 else digest(states), *filter(None, outside)],
        "dev questions": examples_digest(devset),
        "training questions": examples_digest(trainset),
        "language model": [lm_name(model), lm_settings(model)],
        "index": [retriever_facts(retriever).get(key) for key in ("name", "digest", "corpus_digest")],
    }


@contextmanager
def _reusing(programs: Mapping[str, P], model: Any, config: StudyConfig) -> Iterator[Mapping[str, P]]:
    """Let DSPy ask the model, and yield the programs, both with earlier results used again if the study does so."""
    folder = config.cache_dir / "lm" if config.reuse and config.cache_dir is not None else None
    asked = model.copy(cache=config.reuse) if hasattr(model, "cache") else model
    reused = share_results(programs, config.cache_dir) if config.reuse else nullcontext(programs)
    with reused as cached, quiet(), lm_cache(folder), without_history(), dspy.context(lm=asked):
        yield cached


def _settings(program: Program) -> dict[str, str]:
    """Hyperparameters and numbers of demonstrations, by name, as text."""
    values = {name: str(value) for name, value in program.values().items()}
    shown = {f"demonstrations of {name}": str(len(cast("Any", p).demos)) for name, p in program.named_predictors()}
    return values | shown
