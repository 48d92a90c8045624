"""One Optuna study of a program's hyperparameters and demonstrations; several processes may run it at once."""

from __future__ import annotations

import json
import logging
import random
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import dspy
import optuna
from optuna import Study
from optuna.exceptions import ExperimentalWarning, OptunaError, TrialPruned, UpdateFinishedTrialError
from optuna.pruners import NopPruner, WilcoxonPruner
from optuna.samplers import TPESampler
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.trial import Trial, TrialState
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from knowgap.compiling.demonstrations.demo_sets import MAX_DEMOS, NUM_SETS, DemoSets
from knowgap.compiling.demonstrations.optimizers import run_optimizer
from knowgap.compiling.evaluation.evaluator import answers_about
from knowgap.compiling.evaluation.metrics import Metric, Metrics, named_metrics
from knowgap.compiling.evaluation.provenance import examples_digest, lm_name, provenance_of
from knowgap.compiling.evaluation.quiet import quiet
from knowgap.compiling.evaluation.runner import check_examples, resolve_lm
from knowgap.compiling.evaluation.shared_cache import share_results
from knowgap.compiling.run import Run
from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.objective import DEFAULT, LABEL, Objective, spent_in
from knowgap.compiling.study.result import FINISHED, StudyResult, choose
from knowgap.compiling.study.space import SearchSpace
from knowgap.errors import LanguageModelUnreachable, StudyError, UsageError, shorten, without_credentials
from knowgap.lms.metering import UsageTracker, token_prices, track_usage
from knowgap.lms.providers import EXTRACTIVE
from knowgap.programs.base import Program
from knowgap.storage.files import acquire_lock

P = TypeVar("P", bound=Program)

_LOG = logging.getLogger("knowgap")

_ABOUT, _DEMOS = "about", "demonstrations"  # attributes of a study
_DOUBT = 0.4  # two settings answer most questions alike: with Optuna's 0.1, a trial without a gain runs on to its end
_LOST_TRIALS = 3  # this many in a row end the study
_SQLITE: dict[str, Any] = {"poolclass": NullPool, "connect_args": {"timeout": 120, "isolation_level": None}}


def run_study(
    program: P,
    devset: Sequence[dspy.Example],
    trainset: Sequence[dspy.Example] = (),
    metric: Metrics = "f1",
    *,
    config: StudyConfig = StudyConfig(),
    teacher_lm: dspy.BaseLM | None = None,
    run: Run = Run(),
) -> StudyResult[P]:
    """Search for the hyperparameters and demonstrations with the best score on the dev questions.

    The study begins with the default settings, those of the program, and bootstrapped demonstrations. Then Optuna's TPE
    draws trials. The same call continues a study, and several processes may make it: each runs the next waiting trial
    or draws one. A trial that failed, or whose process died, is run again.

    Arguments and errors are those of `knowgap.compiling.compiler.compile`.
    """
    [(name, measure), *_] = named_metrics(metric).items()
    run = replace(run, lm=resolve_lm(run.lm, program))
    asked = lm_name(run.lm)
    searches = config.demos == "auto" and asked != EXTRACTIVE
    if config.max_money is not None and token_prices(asked) is None:
        raise UsageError(f"max_money cannot be kept, since the prices of {asked} are not known: limit max_calls")
    questions = [each.copy(id=id) for id, each in zip(check_examples(devset, "devset"), devset, strict=True)]
    random.Random(run.seed).shuffle(questions)
    SearchSpace(program, config, num_demo_sets={"": 1})  # a wrong name or range is refused before anything is kept
    about = {
        **answers_about(provenance_of(program, devset, run.lm, metrics={name: measure}), [name], devset),
        "kind": "study",
        "training questions": examples_digest(trainset),
        "seed": run.seed,
        "demonstrations": searches,
        **config.model_dump(mode="json", include={"prune", "include", "ranges"}),
    }
    file, cached = _sqlite_file(config.storage), share_results({"": program})[""]
    with quiet(), warnings.catch_warnings(), _naming(config.storage):
        warnings.simplefilter("ignore", ExperimentalWarning)
        with nullcontext() if file is None else acquire_lock(file):  # one process after the other begins
            study = optuna.create_study(
                storage=_opened(config.storage, config.heartbeat),
                study_name=program.name,
                direction="maximize",
                pruner=WilcoxonPruner(p_threshold=_DOUBT) if config.prune else NopPruner(),
                load_if_exists=True,
            )
            _check_about(study, about)
            demos = _demonstrations(study, cached, trainset, measure, teacher_lm, run) if searches else None
            objective = Objective(cached, questions, {name: measure}, config=config, demos=demos, run=run)
            for label, values, chosen in (
                (DEFAULT, objective.space.defaults, {}),
                ("current", {}, objective.demos.own),
                ("bootstrapped", {}, objective.demos.bootstrapped),
            ):
                parameters = objective.space.parameters(values, chosen)
                study.enqueue_trial(parameters, user_attrs={LABEL: label}, skip_if_exists=True)
        stopped = _run_trials(study, objective)
        best = choose(study.get_trials(states=FINISHED), config.tolerance)
    objective.program = program  # without the cache
    return StudyResult(study, objective, best, stopped)


def _check_about(study: Study, about: dict[str, Any]) -> None:
    """Note what a new study is about; raise `StudyError` if one of that name is about something else."""
    wanted: dict[str, Any] = json.loads(json.dumps(about, default=str))
    if not study.user_attrs and not study.get_trials(deepcopy=False):
        study.set_user_attr(_ABOUT, wanted)
    stored = study.user_attrs.get(_ABOUT, {})
    if differing := sorted(key for key in {*stored, *wanted} if stored.get(key) != wanted.get(key)):
        raise StudyError(
            f"the study {study.study_name!r} in the storage is about something else (it differs in: "
            f"{', '.join(differing)}): name another storage"
        )


def _demonstrations(
    study: Study,
    program: Program,
    trainset: Sequence[dspy.Example],
    metric: Metric,
    teacher_lm: dspy.BaseLM | None,
    run: Run,
) -> DemoSets:
    """The demonstration sets of a study; the first process makes and stores them."""
    if _DEMOS not in study.user_attrs:
        bootstrapped, run = None, run.part("making demonstrations")
        with track_usage(UsageTracker(token_prices(lm_name(teacher_lm or run.lm)))) as tracker:
            if trainset:
                options: dict[str, Any] = {"max_bootstrapped_demos": NUM_SETS * MAX_DEMOS // 2, "run": run}
                bootstrapped = run_optimizer(program, trainset, metric=metric, teacher_lm=teacher_lm, **options)
        made = DemoSets.draw(program, bootstrapped, seed=run.seed).model_copy(update={"spent": tracker.usage})
        if _DEMOS not in study.user_attrs:  # another process may have been faster
            study.set_user_attr(_DEMOS, made.model_dump_json())
    return DemoSets.model_validate_json(study.user_attrs[_DEMOS])


def _run_trials(study: Study, objective: Objective[Any]) -> str:
    """Run trials until there are enough or a limit is reached, and none is under way elsewhere; return which.

    A trial is under way from its first answer, before which it may not have a heartbeat, until it misses two of them.

    Raises:
        LanguageModelUnreachable: several trials in a row lost a question.
    """
    lost, config, retry, raised = 0, objective.config, RetryHeartbeatStaleTrialCallback(), list[BaseException]()

    def ask(trial: Trial) -> float:
        try:
            return objective(trial)
        except (TrialPruned, UpdateFinishedTrialError):
            raise
        except BaseException as error:  # is run again, as Optuna does with trials of processes that died
            if isinstance(error, SystemExit):  # of which Optuna takes no note
                study.tell(trial, state=TrialState.FAIL)
            retry(study, study.get_trials()[trial.number])
            raised.append(error)
            raise

    while True:
        trials = study.get_trials(deepcopy=False)
        under_way = sum(bool(each.intermediate_values) for each in trials if each.state == TrialState.RUNNING)
        begun = under_way + sum(each.state in FINISHED for each in trials)
        reason = "trials" if begun >= config.n_trials else config.exceeded(spent_in(trials) + objective.demos.spent)
        if reason and not under_way:
            return reason
        if reason:  # all processes choose among the same trials
            time.sleep(0.5)
            fail_stale_trials(study)
            continue
        # A seed for each place: the same in a study that is continued, and another on another machine.
        seed = objective.run.seed + sum(trial.state != TrialState.FAIL for trial in trials)
        study.sampler = TPESampler(seed=seed, multivariate=True, group=True, n_startup_trials=8)
        try:
            study.optimize(ask, n_trials=1)
            lost = 0
        except LanguageModelUnreachable as error:
            lost += 1
            if lost == _LOST_TRIALS:
                raise LanguageModelUnreachable(f"{lost} trials in a row failed: {error}") from error
            _LOG.warning("%s; the trial is run again", error)
        except (AssertionError, ValueError) as error:
            if error in raised:
                raise
            _LOG.warning("another process took this one for dead, and runs its trial again: %s", error)


def _opened(storage: str | Path | None, heartbeat: int) -> RDBStorage | None:
    """Optuna's storage, made if it is not there; None keeps the study in memory.

    Args:
        storage: a SQLite file or a database URL (`postgresql+psycopg://…`).
        heartbeat: seconds between the heartbeats of a running trial; one that misses two is run again.

    Raises:
        StudyError: no driver is installed, or no such server is known.
    """
    if storage is None:
        return None
    file, retry = _sqlite_file(storage), RetryHeartbeatStaleTrialCallback()
    url, options = (str(storage), {}) if file is None else (f"sqlite:///{file}", _SQLITE)
    try:
        opened = RDBStorage(url, options, heartbeat_interval=heartbeat, heartbeat_stale_trial_callback=retry)
    except (ImportError, ValueError) as error:
        raise StudyError(f"{without_credentials(url)} cannot be opened: {shorten(error, 200)}") from error
    if file is not None:  # SQLite has no lock on a row: else two processes could take the same waiting trial
        event.listen(opened.engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return opened


@contextmanager
def _naming(storage: str | Path | None) -> Iterator[None]:
    """Turn errors of a database that cannot be opened, read or written into a `StudyError` that names it."""
    try:
        yield
    except (OptunaError, SQLAlchemyError) as error:
        origin: Any = error.__cause__ or error
        reason = shorten(str(getattr(origin, "orig", None) or origin).strip().splitlines()[0], 300)
        shown = f"{without_credentials(str(storage))}: {reason}"
        raise StudyError(f"{shown}; the same command continues the study once the storage works") from error


def _sqlite_file(storage: str | Path | None) -> Path | None:
    """The file that keeps a study, if it is one."""
    text = str(storage).removeprefix("sqlite:///")
    return None if storage is None or "://" in text else Path(text).expanduser()
