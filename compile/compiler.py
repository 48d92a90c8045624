"""Compile programs: find the settings, demonstrations or instructions with which they answer best."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import dspy

from knowgap.compiling.artifact import check_savable, save
from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.demonstrations.optimizers import OPTIMIZERS, run_optimizer
from knowgap.compiling.evaluation.evaluator import Estimate, estimate, evaluate
from knowgap.compiling.evaluation.metrics import DEFAULT_METRICS, Metrics, named_metrics
from knowgap.compiling.evaluation.metrics.retrieval import without_missing_gold
from knowgap.compiling.evaluation.provenance import examples_digest, state_of
from knowgap.compiling.evaluation.results import Evaluations
from knowgap.compiling.evaluation.runner import check_examples, resolve_lm
from knowgap.compiling.hold_out import LEAST, Verdict, judge, split_off
from knowgap.compiling.run import Run
from knowgap.compiling.study.config import StudyConfig
from knowgap.compiling.study.result import StudyResult, changes, choose
from knowgap.compiling.study.run import run_study
from knowgap.compiling.thresholds import calibrate_delta
from knowgap.errors import UnknownName, UsageError
from knowgap.programs.base import Program
from knowgap.programs.modules import as_program, named_programs

P = TypeVar("P", bound=Program)

_LOG = logging.getLogger("knowgap")


@dataclass(frozen=True)
class Compiled(Generic[P]):
    """What `compile` found.

    Attributes:
        program: a copy with the settings, demonstrations or instructions that were found, or `before` if `verdict` says
            that a study's choice is not better on the held-out questions.
        before: the program as it was; of several programs, the first, which is the base of the comparison.
        study: the study of the program that was chosen; its `program` is its choice, whether better or not.
        screening: of several programs, the evaluations on the dev questions before any was studied.
        held_out: the dev and training questions that no study has seen.
        verdict: whether the choice is better than the program as it was; None if this was not tested.
        evaluations: evaluations of `before` and of what was found, by labels such as "held-out after"; with an
            `output`, also those on dev and test.
        artifact: with an `output`, the folder that `knowgap.load` reads.
    """

    program: P
    before: P
    study: StudyResult[P] | None = None
    screening: Evaluations | None = None
    held_out: Sequence[dspy.Example] = ()
    verdict: Verdict | None = None
    evaluations: Evaluations = field(default_factory=Evaluations)
    artifact: Path | None = None

    @property
    def summary(self) -> str:
        """One line that says what was found."""
        if self.study is not None:
            return str(self.study) if self.verdict is None else f"{self.study}; {self.verdict.text}"
        found = changes(self.before, self.program).items()
        told = ", ".join(f"{name}: {before} → {after}" for name, (before, after) in found)
        return told or ("new instructions" if state_of(self.program) != state_of(self.before) else "nothing was found")


def compile(
    programs: P | dspy.Module | Sequence[P | dspy.Module],
    dataset: Dataset | Sequence[dspy.Example],
    metrics: Metrics = DEFAULT_METRICS,
    *,
    optimizer: str = "study",
    study: StudyConfig | None = None,
    teacher_lm: dspy.BaseLM | None = None,
    trainset: Sequence[dspy.Example] | None = None,
    limit: int | None = None,
    output: str | Path | None = None,
    run: Run = Run(),
    **options: Any,
) -> Compiled[P]:
    """Find the settings, demonstrations or instructions with which a program answers best, or the best of several.

    The optimizer "study" runs an Optuna study of hyperparameters and demonstrations. The same call continues a study:
    `n_trials` counts all its finished trials, and a trial that failed or whose process died is run again. Several
    processes may make the call at the same time, on one machine if a file keeps the study, on several if a database
    server does. Of more than two programs, the two with the best scores on the dev questions, as they are, are studied,
    each with half of the trials and of the limits.

    The optimizers of `knowgap.compiling.demonstrations.optimizers.OPTIMIZERS` are DSPy's. They find demonstrations or
    instructions; hyperparameters are not changed. "calibrate" sets δ to the largest value that some retrieved passage
    reaches for at least `share` of the training questions (0.8, as in MIGRES, table 12); no language model is asked.

    Args:
        programs: a program or a DSPy module, which is not changed; or several with different names, of which a study
            finds the best. The first is the base of the comparison.
        dataset: a data set with the splits train and dev, or the dev questions themselves.
        metrics: one metric or several; trials are compared by the first.
        optimizer: "study", "calibrate" or one of DSPy's optimizers.
        study: the settings of a study: how many trials, where it is kept (default: `study.db` in `output`), limits, …
        teacher_lm: the language model that makes demonstrations and writes instructions; default: that of `run`.
        trainset: the training questions, if `dataset` has no splits.
        limit: use only the first questions of every split, at most this many.
        output: a folder for the study, the evaluations on dev and test before and after compiling, and the artifact.
        run: the language model, how many questions are asked at a time, the seed, and a callback.
        **options: `share` for "calibrate", and the options of DSPy's optimizers by DSPy's names.

    Raises:
        UsageError: an argument that does not fit.
        DataError: questions that could not be scored in the end, or two that are held out have the same id.
        UnknownName: no such optimizer, option, metric or hyperparameter.
        StudyError: a study that cannot be opened or continued, or that has no complete trial.
        LanguageModelUnreachable: the language model can no longer be reached; the same call continues a study.

    >>> import knowgap
    >>> data, program = knowgap.load_dataset("sample"), knowgap.get_program("direct")()
    >>> run = knowgap.Run(lm=knowgap.make_lm("extractive"))
    >>> knowgap.compile(program, data, "f1", optimizer="labeled", run=run, k=2).summary
    'demonstrations of answer: 0 → 2'
    """
    several = cast("list[P]", [as_program(p) for p in ([programs] if isinstance(programs, dspy.Module) else programs)])
    if not isinstance(dataset, Dataset):
        splits = {"train": [*(trainset or ())], "dev": [*dataset]}
        dataset = Dataset("questions", splits, [], examples_digest(splits["dev"]))
    data = replace(dataset, splits={name: each[:limit] for name, each in dataset.splits.items()})
    dev, train = data.questions("dev", limit), data.splits.get("train", [])
    metric = dict([next(iter(named_metrics(metrics).items()))])
    folder = None if output is None else Path(output)
    for program in several:
        if folder is not None:
            check_savable(program, folder / "artifact")
    _check_scorable(several, data, ["dev"] if folder is None else ["dev", "test"], *metric)
    if optimizer == "study":
        if options:
            raise UsageError(f"a study takes no {', '.join(options)}: its settings are those of StudyConfig")
        config = study or StudyConfig()
        parts = dict(zip(("dev", "train", "held-out"), split_off(dev, train, config.hold_out, run.seed), strict=True))
        data = replace(data, splits={**data.splits, **parts})
        _check_scorable(several, data, ["held-out"], *metric)
        if config.storage is None and folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            config = config.model_copy(update={"storage": folder / "study.db"})
        chosen, screening = _study(several, parts["dev"], parts["train"], metric, config, teacher_lm, run)
        found = Compiled(chosen.program, several[0], chosen, screening, parts["held-out"])
        if config.hold_out != 0:
            found = _check_choice(found, data, metrics, run)
    elif optimizer not in ("calibrate", *OPTIMIZERS):
        raise UnknownName.among("optimizer", optimizer, ["study", "calibrate", *OPTIMIZERS])
    elif len(several) != 1 or study is not None:
        raise UsageError(f"the optimizer {optimizer} compiles exactly one program, and takes no settings of a study")
    elif optimizer == "calibrate":
        for name in options.keys() - {"share"}:
            raise UnknownName.among("option of calibrate", name, ["share"])
        delta = calibrate_delta(several[0], train, progress=run.progress, **options)
        found = Compiled(several[0].deepcopy().configure(delta=delta), several[0])
    else:
        options |= {"optimizer": optimizer, "teacher_lm": teacher_lm}
        found = Compiled(run_optimizer(several[0], train, valset=dev, metric=metric, run=run, **options), several[0])
    return found if folder is None else _score_and_save(found, data, metrics, folder, run)


def _check_scorable(programs: Sequence[Program], data: Dataset, splits: Sequence[str], metric: str) -> None:
    """Refuse what `evaluate` would refuse at the end, before anything is asked."""
    for split in filter(data.splits.get, splits):
        check_examples(data.splits[split], f"{split} questions")
        for program in programs:
            without_missing_gold(data.splits[split], program.retriever, metric)


def _study(
    programs: Sequence[P],
    dev: Sequence[dspy.Example],
    train: Sequence[dspy.Example],
    metric: Metrics,
    config: StudyConfig,
    teacher_lm: dspy.BaseLM | None,
    run: Run,
) -> tuple[StudyResult[P], Evaluations | None]:
    """Study a program, or the best two of several; return the study with the best trial, and how two were selected."""
    by_name: dict[str, P] = named_programs(programs)
    config.check_names(*by_name.values())
    screening = None
    if len(by_name) > 2:
        screening = evaluate(by_name, dev, metric, run=run.part("screening"))
        order = sorted(by_name, key=lambda name: (-screening[name].mean(), screening[name].costs()["lm_calls"] or 0.0))
        _LOG.warning("%s are studied: as they are, they are the best of %d", " and ".join(order[:2]), len(order))
        by_name = {name: by_name[name] for name in order[:2]}
    studies = list[StudyResult[P]]()
    for program in by_name.values():
        own = config if len(by_name) == 1 else config.half_for(program)
        studies.append(run_study(program, dev, train, metric, config=own, teacher_lm=teacher_lm, run=run))
    best = choose([each.best for each in studies], config.tolerance)
    return next(each for each in studies if each.best is best), screening


def estimate_study(
    programs: Sequence[P],
    dataset: Dataset,
    metrics: Metrics,
    study: StudyConfig,
    *,
    limit: int | None = None,
    run: Run = Run(),
) -> dict[str, Estimate]:
    """About what a study, and the scores before and after, cost; three questions are asked of each program.

    Trials are assumed to cost as much as the program does as it is. Of several programs, each estimate is that of a
    study of it alone.
    """
    dev, test = dataset.questions("dev", limit), dataset.splits.get("test", [])[:limit]
    count = study.n_trials * len(dev) + 2 * (len(dev) + len(test))
    return {each.name: estimate(each, dev, metrics, count=count, run=run) for each in programs}


def _check_choice(found: Compiled[P], data: Dataset, metrics: Metrics, run: Run) -> Compiled[P]:
    """Test the choice of a study against the program as it was on the held-out questions.

    Returns `found` with the verdict, and with the program as it was if the choice is not better. The first of the
    metrics decides.
    """
    study, evaluations = cast("StudyResult[P]", found.study), Evaluations()
    chosen = f"trial {study.best.number} of {found.program.name}"
    if type(found.program) is type(found.before) and state_of(found.program) == state_of(found.before):
        verdict = Verdict(False, f"{chosen} is the program as it was, which is kept.")
    elif not found.held_out:
        needed = f"at least {2 * LEAST} dev or {3 * LEAST} training questions, or hold_out=0 to take it untested"
        verdict = Verdict(False, f"{chosen} is not tested, so the program as it was is kept: that takes {needed}.")
    else:
        evaluations = _score(found, data, "held-out", metrics, run)
        verdict = judge(chosen, *evaluations.values(), tolerance=study.objective.config.tolerance)
    program = found.program if verdict.better else found.before
    return replace(found, program=program, verdict=verdict, evaluations=evaluations)


def _score(found: Compiled[P], data: Dataset, split: str, metrics: Metrics, run: Run) -> Evaluations:
    """Score the program as it was, and what an optimizer found or a study chose, on a split."""
    after = found.program if found.study is None else found.study.program
    programs = {f"{split} before": found.before, f"{split} after": after}
    return evaluate(programs, data, metrics, run=run, split=split, traces=True)


def _score_and_save(found: Compiled[P], data: Dataset, metrics: Metrics, folder: Path, run: Run) -> Compiled[P]:
    """Score the program before and after compiling on dev and test, and save `found.program` with its scores."""
    evaluations = Evaluations(found.evaluations)
    for split in ("dev", "test"):
        if data.splits.get(split):
            evaluations |= _score(found, data, split, metrics, run)
    evaluations.save(folder)
    kept = found.verdict is not None and not found.verdict.better
    artifact = save(
        found.program,
        folder / "artifact",
        lm=resolve_lm(run.lm, found.program),
        data=data,
        evaluations={n: e for n, e in evaluations.items() if not kept or n.endswith("before")},
        cost=None if kept or found.study is None else found.study.spent,
    )
    return replace(found, evaluations=evaluations, artifact=artifact)
