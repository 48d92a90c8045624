"""Commands that make programs and their models better: compile, train."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.cli.evaluate import open_job, show_estimates, show_scores
from knowgap.errors import UsageError
from knowgap.storage.processes import is_main_process, main_process_first

if TYPE_CHECKING:
    from knowgap.compiling import Compiled, StudyResult
    from knowgap.compiling.training import TrainingResult


@dataclass(frozen=True)
class CompileOptions(o.JobOptions):
    """A program, or several, and how it is improved."""

    optimizer: Annotated[
        str,
        Option(
            "--optimizer",
            help="study: demonstrations and hyperparameters together; demonstrations or instructions alone, by a DSPy "
            "optimizer: see `knowgap ls optimizers`; or calibrate: the relevance threshold δ alone, from the training "
            "questions (MIGRES, table 12).",
        ),
    ] = "study"
    n_trials: Annotated[
        int | None,
        Option("--n-trials", help="Trials of a study in all, earlier runs of it included.", show_default="20"),
    ] = None
    ranges: Annotated[
        list[str] | None,
        Option(
            "--range",
            help="Search a number within other bounds, as NAME=LOW:HIGH; one that a dspy.Module does not declare is "
            "searched only so. Can be repeated.",
        ),
    ] = None
    study: Annotated[
        list[str] | None,
        Option(
            "--study",
            help="A setting of the study, as NAME=VALUE. Can be repeated. demos=none leaves demonstrations alone. "
            "hold_out=N dev questions (a third, if there are 40) test the choice; 0 saves it untested. storage is a "
            ".db file, or a database URL that several machines name. tolerance=0.02 chooses the trial with the fewest "
            "calls of those so close to the best. prune=false stops no trial early. max_calls and max_money end "
            "the study. With another optimizer, its settings: share (of calibrate), or DSPy's own.",
        ),
    ] = None


@o.grouped
def compile_(*, options: CompileOptions) -> None:
    """Find what serves a program best on the train and dev splits; score it on dev and test before and after; save it.

    Of several programs, the two that are best as they are on the dev questions are studied. What is chosen is saved if
    it is better on questions that the study has not seen, else the program as it was.
    """
    from knowgap.compiling import Run, compile, estimate_study

    checked = [*factories.check_programs(options, searching=True).values()]
    settings = _settings(options, generated=any(each.generator is not None for each in checked))
    with open_job(options, ["dev"], checked) as (dataset, metrics, lm, retriever):
        programs = [each.make(retriever, lm) for each in checked]
        name = programs[0].name if len(programs) == 1 else "programs"
        folder = options.output_dir or Path(f"{name}-{dataset.name}")
        with progress(f"compiling {name} on {dataset.name}") as report:
            common = {"limit": options.limit, "run": Run(lm, options.num_threads, options.seed, report)}
            if options.dry_run:
                show_estimates(estimate_study(programs, dataset, metrics, settings["study"], **common), lm)
                return
            named = {"optimizer": options.optimizer, "output": folder}
            found = compile(programs, dataset, metrics, **common, **named, **settings)
        _show(found, folder)


def _settings(options: CompileOptions, generated: bool) -> dict[str, Any]:
    """The settings of a study, or of another optimizer."""
    from knowgap.compiling import StudyConfig

    given: dict[str, Any] = {**factories.named_values(options.study, "--study")}
    own: dict[str, Any] = {"n_trials": options.n_trials, "ranges": factories.named_values(options.ranges, "--range")}
    own = {name: value for name, value in own.items() if value not in (None, {})}
    if options.optimizer == "study":
        own |= {"demos": "none"} if generated else {}  # a generator reads no prompts
        return {"study": StudyConfig(**{**given, **own})}
    if options.dry_run:
        raise UsageError(f"what --optimizer {options.optimizer} costs cannot be estimated: ask a few questions")
    return {name: _parse(text) for name, text in given.items()} | ({"study": StudyConfig(**own)} if own else {})


def _parse(text: str) -> Any:
    """Parse a JSON value such as a number; return other text as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _show(found: Compiled[Any], folder: Path) -> None:
    """Show what was found, and the scores before and after."""
    from knowgap.reports.tables import before_and_after

    if found.screening is not None:
        show_scores(f"{len(found.screening)} programs as they are, on the dev questions", found.screening)
    if found.study is None:
        out.print(found.summary, markup=False)
    else:
        show_study(found.study)
    chosen = (found.study or found).program.name
    if chosen != found.before.name:
        out.print(f"{chosen} in place of {found.before.name}", markup=False)
    table = before_and_after(found.evaluations)
    show_table(table.title, table.columns, table.rows, caption=table.caption)
    if found.verdict is not None:
        out.print(found.verdict.text, markup=False)
    out.print(f"saved in {found.artifact}; `knowgap report {folder}` shows the questions", markup=False)


def show_study(study: StudyResult[Any]) -> None:
    """Show the best trials of a study, what they changed, what decides the score, and what the study cost."""
    from knowgap.compiling.study.objective import LABEL
    from knowgap.compiling.study.result import rank

    rows = []
    for trial in sorted(study.complete, key=rank)[:5]:
        kind = trial.user_attrs.get(LABEL, "sampled") + (" (chosen)" if trial.number == study.best.number else "")
        changed = ", ".join(f"{name}={value}" for name, (_, value) in study.changes(trial).items()) or "as before"
        rows.append([trial.number, kind, f"{trial.values[0]:.3f}", f"{rank(trial)[1]:.3g}", changed])
    columns = ["trial", "kind", f"dev {study.objective.metric}", "calls", "changed"]
    stopped = len(study.trials) - len(study.complete)
    title = f"the best of {len(study.trials)} trials" + (f" ({stopped} of them stopped early)" if stopped else "")
    show_table(f"{study.objective.program.name}: {title}", columns, rows)
    if importances := list(study.importances().items())[:6]:
        show_table("what decides the score", ["parameter", "share"], [[n, f"{share:.2f}"] for n, share in importances])
    spent = study.spent
    uncounted = f", {spent.uncounted_calls} calls that nobody counted" if spent.uncounted_calls else ""
    told = f"{spent.calls} LM calls{uncounted}, and {spent.cached_calls} answers from the cache"
    out.print(f"{told}; ended by: {study.stopped}", markup=False)


@dataclass(frozen=True)
class TrainOptions(o.ModelOptions, o.DataOptions):
    """What a model is trained on and starts from."""

    model: Annotated[
        str | None,
        Option(
            "--model",
            help="Model to start from, by path or hub name. A reranker starts from the embedded encoder unless "
            "another is named.",
        ),
    ] = None
    preset: Annotated[
        Literal["paper"] | None,
        Option("--preset", help="With rq-rag and ra-isf: the paper's base, unless --model names one."),
    ] = None
    settings: Annotated[
        list[str] | None,
        Option(
            "--set", "-s", help="A setting, as name=value, such as epochs=2: see docs/training.md. Can be repeated."
        ),
    ] = None


@o.grouped
def train(
    kind: Annotated[Literal["reranker", "ra-isf", "rq-rag"], Argument(help="The model to train.")],
    *,
    output: Annotated[Path, Option("--output", "-o", help="Folder of the trained model.")],
    options: TrainOptions,
) -> None:
    """Train a model on your own questions. The same command continues a run that was killed.

    `knowgap eval` tells what a model is worth, with and without `--part`, on questions that it was not trained on.

    reranker is a cross-encoder, trained on gold passages and the wrong ones that an index ranks highest; `--part
    reranker=OUTPUT` takes it.

    ra-isf is RA-ISF's sub-models, OUTPUT/know, OUTPUT/relevant and OUTPUT/decompose, with the labels that they learn
    beside them. rq-rag is RQ-RAG's generator; its transcripts are in OUTPUT-transcripts.jsonl. A teacher (--lm) writes
    labels and transcripts. Both train in several processes under `accelerate launch`; the first one asks the teacher.
    """
    from knowgap.compiling import training
    from knowgap.compiling.run import Run
    from knowgap.compiling.teacher import check_teacher

    settings: dict[str, Any] = dict(factories.named_values(options.settings, "--set"))
    base: dict[str, Any] = {"base": options.model or "", "preset": options.preset}
    training.plan(kind, **base, **settings)
    asks = kind != "reranker" and is_main_process()
    teacher = check_teacher(factories.load_lm(options), f"what {kind} learns") if asks else None
    with ExitStack() as stack:
        with main_process_first():
            dataset = factories.load_data(options)
            retriever = stack.enter_context(factories.open_index(options, dataset))
        run = Run(lm=teacher, seed=options.seed, progress=stack.enter_context(progress(kind)))
        trained = training.train(kind, dataset, retriever, output, limit=options.limit, run=run, **base, **settings)
    if is_main_process():
        for done in trained:
            _show_training(done)


def _show_training(done: TrainingResult) -> None:
    """Show what a training did."""
    for note in done.notes:
        remark(note)
    how = "before, with the same settings and data" if done.trained_before else f"in {done.seconds:.0f} s"
    begun = f", from step {done.resumed_from}" if done.resumed_from else ""
    remark(f"trained {done.folder} {how}: {done.steps} steps{begun}, loss {done.final_loss:.4f}")
