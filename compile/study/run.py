"""One Optuna study over programs, their hyperparameters and demonstrations, which several processes may share."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import dspy

from knowgap.compiling.demonstrations.demo_sets import DemoSets
from knowgap.compiling.demonstrations.labelled import answers_only, label_calls
from knowgap.compiling.demonstrations.run_optimizer import run_optimizer
from knowgap.compiling.evaluation.metrics import Metrics, named_metrics
from knowgap.compiling.evaluation.metrics.missing_gold import check_gold
from knowgap.compiling.evaluation.provenance import (
    digest,
    examples_digest,
    lm_name,
    lm_settings,
    outside_parts,
    provenance_of,
    state_of,
)
from knowgap.compiling.evaluation.quiet import quiet
from knowgap.compiling.evaluation.runner import check_examples, resolve_lm
from knowgap.compiling.evaluation.shared_cache import lm_cache, share_results
from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.initial_trials import known_settings, list_initial_trials
from knowgap.compiling.study.shared import shared_study
from knowgap.compiling.study.space import SearchSpace, program_prefix
from knowgap.compiling.study.summary import StudyFacts, read_study
from knowgap.compiling.study.trials import DEFAULT, TrialResult, choose
from knowgap.compiling.study.worker import Worker
from knowgap.errors import UnknownName, UsageError
from knowgap.lms.cancelling import run_cancellable
from knowgap.lms.metering import Prices, Usage, UsageTracker, token_prices, track_usage, without_history
from knowgap.lms.providers import EXTRACTIVE
from knowgap.plugins import outside_facts
from knowgap.programs.base import Program
from knowgap.storage.progress import Progress

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage


P = TypeVar("P", bound=Program)


@dataclass(frozen=True)
class StudyResult(StudyFacts, Generic[P]):
    """The facts about a study, and the programs that it found.

    Attributes:
        questions: ids of the dev questions, in the order of the trials' scores.
        stopped: why the study ended: "trials", or the limit that was reached.
        bases: the programs before the study, by name.
        config: the settings of the study, with the prices that were used.
    """

    questions: list[str]
    stopped: str
    bases: Mapping[str, P]
    config: StudyConfig

    def __repr__(self) -> str:
        best, base = self.best, self.labelled(DEFAULT)
        before = f"; {base.score:.3f} with the defaults" if base is not None else ""
        return (
            f"StudyResult({self.base.name}: {len(self.trials)} trials, ended by: {self.stopped}; "
            f"trial {best.number} is chosen with {self.metric} {best.score:.3f} on dev{before})"
        )

    @cached_property
    def program(self) -> P:
        """A copy of the program with the hyperparameters and demonstrations of the chosen trial."""
        return self.program_of(self.best)

    @property
    def base(self) -> P:
        """The program of the chosen trial, as it was."""
        return self.bases[self.best.program]

    def choose(self, rule: str = "best") -> P:
        """The program of the trial that another rule chooses; see `knowgap.compiling.study.trials.choose`."""
        return self.program_of(choose(self.trials, rule, self.cost, self.config))

    def program_of(self, trial: TrialResult) -> P:
        """The program with the hyperparameters and demonstrations of a trial."""
        program = cast("P", self.bases[trial.program].deepcopy().configure(**trial.values))
        return self.pool_of(trial.program).apply(program, trial.demonstrations)

    def reread(self) -> StudyResult[P]:
        """The result with the trials that other processes have finished since."""
        return _conclude(self.study, self.bases, self.questions, self.config, self.stopped)

    def changes(self) -> dict[str, tuple[str, str]]:
        """Hyperparameters and numbers of demonstrations that changed, by name: before and after."""
        before, after = _settings(self.base), _settings(self.program)
        return {name: (before[name], after[name]) for name in before if before[name] != after[name]}


def run_study(
    programs: Sequence[P],
    devset: Sequence[dspy.Example],
    trainset: Sequence[dspy.Example],
    *,
    metric: Metrics,
    demos: str = "auto",
    lm: dspy.BaseLM | None = None,
    teacher_lm: dspy.BaseLM | None = None,
    n_trials: int = 20,
    study_name: str = "",
    storage: str | Path | BaseStorage | None = None,
    study: Study | None = None,
    sampler: BaseSampler | None = None,
    pruner: BasePruner | None = None,
    seed: int = 0,
    num_threads: int = 4,
    progress: Progress | None = None,
    config: StudyConfig | None = None,
) -> StudyResult[P]:
    """Search for the hyperparameters and demonstrations with the best score on the dev questions.

    The study begins with the default settings, the program's own, those in `config.start`, a δ calibrated on the
    training questions, and bootstrapped demonstrations. Then Optuna's TPE draws trials.

    With several programs, the study searches for the best of them as well; see `knowgap.compiling.study.racing`.
    Answers, retrieved lists and scores are shared between programs where prompts and queries are the same.

    Arguments and errors are those of `knowgap.compiling.compiler.compile`; how several processes work together is in
    `knowgap.compiling.study.shared`.
    """
    by_name, train = programs_by_name(programs, n_trials), list(trainset)
    name, measure = next(iter(named_metrics(metric).items()))
    ids, model = check_examples(devset, "devset"), resolve_lm(lm, next(iter(by_name.values())))
    for each in by_name.values():
        check_gold(devset, each.retriever, name)
    choice = "" if not (searches := shows_demos(demos, model, teacher_lm)) else "bootstrapped" if train else "own"
    if choice == "bootstrapped":
        check_examples(train, "trainset")
    given = config or StudyConfig()
    config = given.with_prices(lm_name(model))
    demo_prices = config.prices if teacher_lm is None else _teacher_prices(given, lm_name(teacher_lm))
    if (most := config.max_calls_per_question) is not None:
        by_name = {n: p.deepcopy().configure(max_calls=min(most, p.max_calls or most)) for n, p in by_name.items()}
    if pruner is not None and not config.prunes:
        raise UsageError("a pruner cannot be used in a study of several objectives, or with prune=False: leave it out")
    _check_names(by_name, config)
    questions = list(zip(ids, devset, strict=True))
    random.Random(seed).shuffle(questions)
    about = {
        "programs": list(by_name),
        "state": [[digest(state_of(each)), outside_parts(each)] for each in by_name.values()],
        "dev questions": examples_digest(devset),
        "training questions": examples_digest(train),
        "language model": [lm_name(model), lm_settings(model)],
        **_parts_about(by_name.values()),
        "metric": name,
        "seed": seed,
        "demonstrations": searches,
        "code of the metric": outside_facts({"metric": measure}),
        **config.identity(),
    }

    def bootstrap(program: Program, tracker: UsageTracker, over_limit: Callable[[Usage], object]) -> DemoSets:
        bootstrapped, over = None, threading.Event()

        def report(done: int, total: int, text: str) -> None:
            if over_limit(tracker.usage):
                over.set()
            if progress is not None:
                progress(worker.n_finished, n_trials, f"making demonstrations: {done} {text}")

        most = max(config.max_demos, config.num_sets * config.max_demos // 2)
        if teacher_lm is None and answers_only(program):
            bootstrapped = label_calls(program, train, most, seed=seed, progress=report)
        elif train:
            with track_usage(tracker):
                bootstrapped = run_cancellable(
                    over,
                    run_optimizer,
                    program,
                    train,
                    metric=measure,
                    teacher_lm=teacher_lm,
                    seed=seed,
                    progress=report,
                    max_bootstrapped_demos=most,
                )
        pool = DemoSets.draw(program, bootstrapped, num_sets=config.num_sets, max_demos=config.max_demos, seed=seed)
        return pool.model_copy(update={"spent": tracker.usage})

    with (
        _reusing(by_name, model, config) as cached,
        shared_study(study_name or study_label(list(by_name)), storage, study, config=config, about=about) as opened,
    ):
        known = known_settings(opened, cached, train, config)
        worker = Worker(
            study=opened,
            initial=list_initial_trials(cached, config, known, choice),
            known=known,
            programs=cached,
            bootstrap=bootstrap,
            demo_prices=demo_prices,
            questions=questions,
            metric=(name, measure),
            n_trials=n_trials,
            seed=seed,
            num_threads=num_threads,
            config=config,
            progress=progress,
            sampler=sampler or (study and study.sampler),
            pruner=pruner or (study and study.pruner),
        )
        return _conclude(opened, by_name, [id for id, _ in questions], config, worker.run())


def shows_demos(demos: str, lm: dspy.BaseLM | None, teacher_lm: dspy.BaseLM | None = None) -> bool:
    """Whether trials choose demonstrations: "auto" does so unless the embedded reader answers, which ignores them.

    Raises:
        UsageError: `demos` is another word, or a teacher is given although no demonstrations are made.
    """
    if demos not in ("auto", "search", "none"):
        raise UnknownName.among("kind of demonstrations", demos, ["auto", "search", "none"])
    if demos == "none" or (demos == "auto" and lm_name(lm) == EXTRACTIVE):
        if teacher_lm is not None:
            raise UsageError(f"the teacher {lm_name(teacher_lm)} is not used: no demonstrations are made")
        return False
    return True


def study_label(programs: Sequence[str]) -> str:
    """The default name of a study of these programs: the name of the only one, or "programs"."""
    return programs[0] if len(programs) == 1 else "programs"


def programs_by_name(programs: Sequence[P], n_trials: int) -> dict[str, P]:
    """The programs of a study by name; `UsageError` if their names or the number of trials do not fit."""
    by_name = {each.name: each for each in programs}
    if not by_name or len(by_name) < len(programs):
        raise UsageError(
            f"name programs, each with a name of its own: given are {', '.join(p.name for p in programs) or 'none'}"
        )
    if n_trials < len(by_name):
        raise UsageError(f"n_trials={n_trials}: at least one trial for each of {len(by_name)} programs is needed")
    return by_name


def _teacher_prices(given: StudyConfig, teacher: str) -> Prices | None:
    """The prices of a teacher; `UsageError` if they are not known although money is limited."""
    prices = token_prices(teacher) or given.prices
    return StudyConfig(max_money=given.max_money, prices=prices).with_prices(teacher).prices


def _parts_about(programs: Iterable[Program]) -> dict[str, list[Any]]:
    """The indexes and the models that the programs use besides the language model, each once."""
    origins = [provenance_of(each, [], None) for each in programs]
    facts: dict[str, list[list[Any]]] = {
        "index": [[o.retriever.get(key) for key in ("name", "digest", "corpus_digest")] for o in origins],
        "reranker": [[o.reranker, o.weights.get("reranker")] for o in origins],
        "entailment model": [[o.entailment, o.weights.get("entailment")] for o in origins],
        "sub-models": [[[n, m.get("digest") or m.get("name")] for n, m in o.sub_models.items()] for o in origins],
    }
    return {
        name: [each for n, each in enumerate(every) if any(each) and each not in every[:n]]
        for name, every in facts.items()
    }


def _check_names(programs: Mapping[str, Program], config: StudyConfig) -> None:
    """Refuse unknown hyperparameters, and values that do not fit them, before anything is opened."""
    prefixes = {name: program_prefix(name, len(programs)) for name in programs}
    for name in config.named():
        if not name.startswith((*prefixes.values(),)):
            known = [f"{prefixes[each]}{h}" for each, program in programs.items() for h in program.hyperparameters()]
            raise UnknownName.among("hyperparameter of these programs", name, known)
    spaces = []
    for name, program in programs.items():
        own = config.of_program(prefixes[name])
        spaces.append(space := SearchSpace(program, own, known=own.start, prefix=prefixes[name]))
        if config.max_calls_per_question is not None and "max_calls" in space.declared:
            raise UsageError("max_calls_per_question would not hold if max_calls is searched: leave one of them out")
        declared = program.hyperparameters()
        for setting, value in (pair for start in own.start for pair in start.items()):
            if setting not in space.declared and declared[setting].check(value) != space.values[setting]:
                raise UsageError(
                    f"start: {prefixes[name]}{setting}={value!r} cannot be tried, since the study does not search over "
                    f"{setting}: set it in the program, or include it in the search"
                )
    if not any(space.is_searchable for space in spaces):
        raise UsageError(f"nothing to search over: {', '.join(programs)} have no hyperparameter to tune")


def _conclude(
    study: Study, bases: Mapping[str, P], questions: list[str], config: StudyConfig, stopped: str
) -> StudyResult[P]:
    facts = read_study(study, cost=config.cost)
    best = choose(facts.trials, config.rule, config.cost, config)
    fields: dict[str, Any] = {**vars(facts), "chosen": best}
    return StudyResult(**fields, questions=questions, stopped=stopped, bases=bases, config=config)


@contextmanager
def _reusing(programs: Mapping[str, P], model: Any, config: StudyConfig) -> Iterator[Mapping[str, P]]:
    """Configure DSPy with the model, and yield the programs; both reuse earlier results if `config.reuse` is set."""
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
