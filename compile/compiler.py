"""Compile programs: find the settings, demonstrations or instructions with which they answer best."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import dspy

from knowgap.compiling.artifact import check_savable, save
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.demonstrations.optimizers import OPTIMIZERS
from knowgap.compiling.demonstrations.run_optimizer import run_optimizer
from knowgap.compiling.deployment import Verdict, judge, split_off, too_few
from knowgap.compiling.evaluation.evaluator import evaluate
from knowgap.compiling.evaluation.metrics import Metrics, named_metrics
from knowgap.compiling.evaluation.provenance import state_of
from knowgap.compiling.evaluation.results import Evaluation
from knowgap.compiling.evaluation.runner import resolve_lm
from knowgap.compiling.run import Run
from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.run import StudyResult, run_study
from knowgap.compiling.thresholds import Calibration, calibrate_delta
from knowgap.errors import LanguageModelError, UnknownName, UsageError
from knowgap.programs.base import Program
from knowgap.programs.modules import as_program
from knowgap.storage.progress import Progress

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage

P = TypeVar("P", bound=Program)

_LOG = logging.getLogger("knowgap")

WAYS = {
    "study": "searches hyperparameters and demonstrations together, of one program or several",
    "calibrate": "sets the relevance threshold δ from the scores of retrieved passages",
}
"""The ways to compile besides DSPy's optimizers, with what each does."""


@dataclass(frozen=True)
class Compiled(Generic[P]):
    """What `compile` found.

    Attributes:
        program: a copy with the settings, demonstrations or instructions that were found, or `before` if `verdict` says
            that a study's choice is not better on the held-out questions.
        before: the program as it was; with several programs, the first, which is the base of the comparison. If a study
            limits the calls per question, this program has that limit.
        study: the result of the study, if one was run; its `program` is the study's choice, whether better or not.
        held_out: the dev and training questions that the study has not seen.
        verdict: whether the choice is better than the program as it was; None if this was not tested.
        calibration: δ, if it was calibrated.
        evaluations: evaluations of `before` and of what was found, by labels such as "held-out after"; with an
            `output`, also those on dev and test.
        artifact: with an `output`, the folder that `knowgap.load` reads.
    """

    program: P
    before: P
    study: StudyResult[P] | None = None
    held_out: Sequence[dspy.Example] = ()
    verdict: Verdict | None = None
    calibration: Calibration | None = None
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    artifact: Path | None = None

    @property
    def summary(self) -> str:
        """One line that says what was found."""
        if self.study is not None:
            return str(self.study) if self.verdict is None else f"{self.study}; {self.verdict}"
        if (found := self.calibration) is not None:
            reach = f"{found.covered(found.delta):.0%} of the questions reach it"
            return f"δ = {found.delta:.4f} on the scale of {found.reranker}: {reach}"
        before = self.before.values()
        changed = [f"{name}={value}" for name, value in self.program.values().items() if value != before[name]]
        if changed:
            return ", ".join(changed)
        predictors = self.program.predictors()
        demos = sum(len(cast("Any", predictor).demos) for predictor in predictors)
        return f"{demos} demonstrations in {len(predictors)} predictors"


def compile(
    programs: P | dspy.Module | Sequence[P | dspy.Module],
    dataset: Dataset | Sequence[dspy.Example],
    metrics: Metrics = ("exact_match", "f1"),
    *,
    trainset: Sequence[dspy.Example] | None = None,
    limit: int | None = None,
    optimizer: str = "study",
    demos: str = "auto",
    lm: dspy.BaseLM | None = None,
    teacher_lm: dspy.BaseLM | None = None,
    n_trials: int = 20,
    study_name: str = "",
    storage: str | Path | BaseStorage | None = None,
    study: Study | None = None,
    sampler: BaseSampler | None = None,
    pruner: BasePruner | None = None,
    config: StudyConfig | None = None,
    hold_out: int | None = None,
    seed: int = 0,
    num_threads: int = 4,
    output: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Compiled[P]:
    """Find the settings, demonstrations or instructions with which a program answers best, or the best of several.

    The optimizer "study" runs an Optuna study of hyperparameters and demonstrations. The same call continues a study:
    `n_trials` counts all its finished trials, and a trial whose process died is run again. Several processes may make
    the call at the same time: on one machine if a file keeps the study, on several if a database server does; see
    `knowgap.compiling.study.shared`.

    The optimizers of `knowgap.compiling.demonstrations.optimizers.OPTIMIZERS` are DSPy's. They find demonstrations or
    instructions; "reanchor" sets the thresholds of the program's decisions. Other hyperparameters are not changed.
    "calibrate" sets δ to the largest value that some retrieved passage reaches for at least `share` of the training
    questions (0.8, as in MIGRES, table 12); no language model is asked.

    Args:
        programs: a program or a DSPy module, which is not changed; or several with different names, of which a study
            finds the best. The first is the base of the comparison: its trial with the defaults is never stopped early.
        dataset: a data set with the splits train and dev, or the dev questions themselves.
        metrics: one metric or several; trials are compared by the first.
        trainset: the training questions, if `dataset` has no splits.
        limit: use only the first questions of every split, at most this many.
        optimizer: "study", "calibrate" or one of DSPy's optimizers.
        demos: whether a study chooses demonstrations: "search", "none" (it leaves those of the program alone), or
            "auto" (it searches, unless the embedded reader answers, which ignores them).
        lm: the language model; default: the one that DSPy is configured with.
        teacher_lm: the language model that makes demonstrations and writes instructions; default: `lm`.
        n_trials: number of finished trials (complete or pruned) at which a study ends.
        study_name: the name under which the study is kept; default: the program's name, or "programs".
        storage: where the study is kept, see `knowgap.compiling.study.storage.open_storage`; default: `study.db` in
            `output`, or in memory without one.
        study: an Optuna study that you have created or loaded, with its storage, name, sampler and pruner.
        sampler: an Optuna sampler, which replaces TPE with a seed for every trial.
        pruner: an Optuna pruner, which replaces the comparison with the best trial; it is given the mean score after
            every fifth question.
        config: how a study searches, and its limits.
        hold_out: how many dev questions are held out from a study. Its choice is tested on them against the program as
            it was, which is kept if the choice is not better. By default, a third of the dev questions are held out (20
            of 40 to 59, none of fewer), and some training questions; see `knowgap.compiling.deployment.split_off`. With
            0, the choice is not tested.
        seed: the seed of every random choice.
        num_threads: how many questions are asked at a time; the result does not depend on it.
        output: a folder for the study, the evaluations on dev and test before and after compiling, and the artifact.
        progress: called after every question with what is done, how much there is, and what is going on.
        **options: `share` for "calibrate", and the options of DSPy's optimizers by DSPy's names.

    Raises:
        UsageError: an argument that does not fit.
        UnknownName: no such optimizer, option, metric or hyperparameter.
        StudyError: a study that cannot be opened or continued, or that has no complete trial.
        LanguageModelUnreachable: the language model can no longer be reached; the same call continues a study.

    >>> import knowgap
    >>> from knowgap.compiling import compile
    >>> data, program = knowgap.load_dataset("sample"), knowgap.get_program("direct")()
    >>> found = compile(program, data, "f1", optimizer="labeled", lm=knowgap.make_lm("extractive"), k=2)
    >>> found.summary
    '2 demonstrations in 1 predictors'
    """
    several = cast("list[P]", [as_program(p) for p in ([programs] if isinstance(programs, dspy.Module) else programs)])
    before, train = next(iter(several), None), _training_questions(dataset, trainset, limit)
    dev = dataset.questions("dev", limit) if isinstance(dataset, Dataset) else dataset[:limit]
    metric = dict([next(iter(named_metrics(metrics).items()))])
    common: dict[str, Any] = {"lm": lm, "seed": seed, "num_threads": num_threads, "progress": progress}
    of_studies: dict[str, Any] = {"study": study, "sampler": sampler, "pruner": pruner, "config": config}
    only = {"study_name": study_name or None, "storage": storage, **of_studies, "hold_out": hold_out}
    given = [name for name, value in only.items() if value is not None]
    if optimizer != "study" and given:
        raise UsageError(
            f"the optimizer {optimizer} would ignore {', '.join(given)}: leave out what only a study takes"
        )
    if output is not None:
        if optimizer in OPTIMIZERS and not OPTIMIZERS[optimizer].can_save:
            raise UsageError(f"a program compiled by {optimizer} cannot be saved: leave output out")
        for each in several:
            check_savable(each, Path(output) / "artifact")
    if optimizer == "study":
        _refuse(options, optimizer)
        folder = None if output is None else Path(output) / "study.db"
        dev, train, held_out = split_off(dev, train, hold_out, seed)
        tuned = run_study(
            several,
            dev,
            train,
            metric=metric,
            demos=demos,
            teacher_lm=teacher_lm,
            n_trials=n_trials,
            study_name=study_name,
            storage=storage if storage is not None else folder,
            **of_studies,
            **common,
        )
        found = Compiled(tuned.program, next(iter(tuned.bases.values())), tuned, held_out)
        if hold_out != 0:
            found = check_choice(found, dataset, metrics, **common)
    elif before is None or len(several) > 1:
        raise UsageError(f"the optimizer {optimizer} compiles exactly one program, not {len(several)}")
    elif optimizer == "calibrate":
        _refuse(options, optimizer, "share")
        delta = calibrate_delta(before, train, progress=progress, **options)
        found = Compiled(cast("P", before.deepcopy().configure(delta=delta.delta)), before, calibration=delta)
    elif optimizer in OPTIMIZERS:
        settings: dict[str, Any] = {"teacher_lm": teacher_lm, **common, **options}
        compiled = run_optimizer(before, train, valset=dev, metric=metric, optimizer=optimizer, **settings)
        found = Compiled(cast("P", compiled), before)
    else:
        raise UnknownName.among("optimizer", optimizer, [*WAYS, *OPTIMIZERS])
    return found if output is None else score_and_save(found, dataset, metrics, Path(output), limit=limit, **common)


def check_choice(
    found: Compiled[P], dataset: Dataset | Sequence[dspy.Example], metrics: Metrics, **options: Any
) -> Compiled[P]:
    """Test the choice of a study against the program as it was on the held-out questions.

    Returns `found` with the verdict, and with the program as it was if the choice is not better. The first of the
    metrics decides. The options are those of `Run`.
    """
    study = cast("StudyResult[P]", found.study)
    chosen = f"trial {study.best.number}" + (f", {study.best.program}," if len(study.bases) > 1 else "")
    if found.program.kind is found.before.kind and state_of(found.program) == state_of(found.before):
        said = "No trial scores higher than"
        if any(trial.complete and trial.score > study.best.score + 1e-12 for trial in study.trials):
            said = f"By the rule and the limits of the study, {chosen} is chosen: it is"
        return replace(found, verdict=Verdict(False, f"{said} the program as it was, which is kept."))
    if not found.held_out:
        return replace(found, program=found.before, verdict=too_few(chosen, len(study.questions)))
    questions = _part(dataset, "held-out", found.held_out)
    evaluations: dict[str, Evaluation] = {}
    split = "held-out" if isinstance(dataset, Dataset) else ""
    for label, program in (("held-out before", found.before), ("held-out after", found.program)):
        run = Run(**options).named(label)
        evaluations[label] = evaluate(program, questions, metrics, run=run, split=split, traces=True)
    verdict = judge(chosen, *evaluations.values(), config=study.config)
    program = found.program if verdict.better else found.before
    return replace(found, program=program, verdict=verdict, evaluations=evaluations)


def _part(dataset: Dataset | Sequence[dspy.Example], split: str, examples: Sequence[dspy.Example]) -> Any:
    """The examples as a split of their data set, or as a list if they come from none."""
    own = [*examples]
    return replace(dataset, splits={**dataset.splits, split: own}) if isinstance(dataset, Dataset) else own


def _training_questions(
    dataset: Dataset | Sequence[dspy.Example], trainset: Sequence[dspy.Example] | None, limit: int | None
) -> Sequence[dspy.Example]:
    if not isinstance(dataset, Dataset):
        return list(trainset or ())[:limit]
    if trainset is not None:
        raise UsageError("trainset works only with a list of dev questions: a data set has a train split")
    return dataset.splits.get("train", [])[:limit]


def _refuse(options: dict[str, Any], optimizer: str, *known: str) -> None:
    for name in options:
        if name not in known:
            names = [*known, *inspect.signature(compile).parameters]
            raise UnknownName.among(f"argument of compile with the optimizer {optimizer}", name, names)


def score_and_save(
    found: Compiled[P],
    dataset: Dataset | Sequence[dspy.Example],
    metrics: Metrics,
    folder: Path,
    *,
    limit: int | None = None,
    lm: dspy.BaseLM | None = None,
    lm_before: dspy.BaseLM | None = None,
    seed: int = 0,
    num_threads: int = 4,
    progress: Progress | None = None,
) -> Compiled[P]:
    """Score the program before and after compiling on dev and test, and save `found.program` with its scores.

    Held-out questions are not scored again. The arguments are those of `compile`. `lm_before` is the language model of
    the program as it was, if another one was finetuned; if none of its replies can be read, there are no scores before.
    """
    evaluations = dict(found.evaluations)
    after = found.program if found.study is None else found.study.program
    held_out = {id(example) for example in found.held_out}
    for split in ("dev", "test") if isinstance(dataset, Dataset) else ("",):
        if isinstance(dataset, Dataset) and not dataset.splits.get(split):
            continue
        every = dataset.questions(split, limit) if isinstance(dataset, Dataset) else dataset[:limit]
        questions = _part(dataset, split, [example for example in every if id(example) not in held_out])
        for label, program, model in (("before", found.before, lm_before or lm), ("after", after, lm)):
            name = f"{split} {label}".strip()
            run = Run(model, num_threads, seed, progress).named(name)
            try:
                evaluations[name] = evaluate(program, questions, metrics, run=run, split=split, traces=True)
            except LanguageModelError as error:
                if model is not lm_before:
                    raise
                _LOG.warning("the program as it was before compiling could not be scored: %s", error)
    for name, evaluation in evaluations.items():
        evaluation.save(folder / "evaluations" / f"{name}.json")
    kept = found.verdict is not None and not found.verdict.better
    artifact = save(
        found.program,
        folder / "artifact",
        lm=resolve_lm(lm, found.program),
        data=dataset if isinstance(dataset, Dataset) else None,
        evaluations={n: e for n, e in evaluations.items() if not kept or n.endswith("before")},
        study=None if kept else found.study,
    )
    return replace(found, evaluations=evaluations, artifact=artifact)
