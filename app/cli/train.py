"""The command that trains models on the user's own questions: train."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.errors import UsageError
from knowgap.storage.processes import is_main_process, main_process_first

if TYPE_CHECKING:
    from knowgap.compiling.data import Dataset
    from knowgap.compiling.training import ModelScores, Trained, TrainingPlan
    from knowgap.compiling.training.config import LanguageModelConfig

_CONFIGS = {
    "reranker": "RerankerConfig",
    "colbert": "ColBERTConfig",
    "ra-isf": "SubModelConfig",
    "rq-rag": "GeneratorConfig",
}
_GENERATIVE = ("ra-isf", "rq-rag")


@dataclass(frozen=True)
class TrainOptions(o.ModelOptions, o.DataOptions):
    """What a model is trained on and starts from."""

    model: Annotated[
        str | None,
        Option(
            "--model",
            help="Model to start from, by path or hub name. A reranker and colbert start from the embedded reader's "
            "unless another is named.",
        ),
    ] = None
    sub_model: Annotated[
        list[str] | None,
        Option(
            "--sub-model",
            help="With ra-isf: train this one of know, relevant and decompose. Can be repeated.",
            show_default="all three",
        ),
    ] = None
    labels: Annotated[
        str | None,
        Option(
            "--labels",
            help="With rq-rag (transcripts) and ra-isf. only: let the teacher write them, and train nothing; the same "
            "command without it trains on them. A file: take those in it, in the layout of the authors' training sets, "
            "with ra-isf of one --sub-model; no teacher is asked.",
        ),
    ] = None
    preset: Annotated[
        Literal["paper"] | None,
        Option(
            "--preset",
            help="With rq-rag and ra-isf: the paper's settings, its base unless --model names another, and for ra-isf "
            "its 1000 questions of --data. --dry-run then tells what the paper's run takes.",
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        Option(
            "--set", "-s", help="A setting, as name=value, such as epochs=2: see docs/training.md. Can be repeated."
        ),
    ] = None


@o.grouped
def train(
    kind: Annotated[Literal["reranker", "colbert", "ra-isf", "rq-rag"], Argument(help="The model to train.")],
    *,
    output: Annotated[Path, Option("--output", "-o", help="Folder of the trained model.")],
    options: TrainOptions,
    dry_run: Annotated[
        bool,
        Option(
            "--dry-run",
            help="Train nothing; show examples, steps, estimated hours and calls of a teacher, and for rq-rag and "
            "ra-isf what each way to train takes in memory and on disk.",
        ),
    ] = False,
    gpus: Annotated[
        str | None,
        Option(
            "--gpus",
            help="With --dry-run or --labels only: the GPUs that would train, as NUMBERxGB, such as 8x80.",
            show_default="those of this machine",
        ),
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Train a model on your own questions, and measure it on others. The same command continues a run that was killed.

    reranker is a cross-encoder, trained on gold passages and the wrong ones that an index ranks highest; `--part
    reranker=OUTPUT` takes it. colbert is the token vectors of an index, trained on the same; --engine-option
    checkpoint=OUTPUT of `knowgap index` takes them.

    rq-rag and ra-isf train in several processes under `torchrun` or `accelerate launch`; the first one makes the data.

    ra-isf is RA-ISF's sub-models, OUTPUT/know, OUTPUT/relevant and OUTPUT/decompose, with the labels that they learn
    beside them. rq-rag is RQ-RAG's generator; its transcripts are in OUTPUT-transcripts.jsonl. A teacher (--lm) writes
    labels and transcripts.
    """
    from knowgap.compiling import training
    from knowgap.compiling.training.memory import parse_gpus
    from knowgap.compiling.training.sub_models import TASKS, check_tasks

    if options.sub_model and kind != "ra-isf":
        raise UsageError(f"--sub-model {options.sub_model[0]} applies only to ra-isf, not to {kind}")
    settings: dict[str, Any] = {**factories.named_values(options.settings, "--set")}
    config_class: Any = getattr(training, _CONFIGS[kind])
    make = config_class.as_in_paper if options.preset else config_class
    config, paper = make(**{"seed": options.seed, **settings}), config_class.paper if options.preset else None
    model = options.model or (paper and paper.base)
    if model is None and kind in _GENERATIVE:
        raise UsageError(f"train {kind}: name the model to start from with --model")
    arguments: dict[str, Any] = {} if model is None else {"base": model}
    tasks = check_tasks(options.sub_model or TASKS)
    if kind == "ra-isf":
        arguments["tasks"] = tasks
    labels_only = options.labels == "only"
    if gpus is not None:
        if not (dry_run or labels_only) or kind not in _GENERATIVE:
            raise UsageError(f"--gpus {gpus} applies only to rq-rag and ra-isf, with --dry-run or `--labels only`")
        arguments["gpus"] = parse_gpus(gpus)
    elif paper and (dry_run or labels_only):
        arguments["gpus"] = paper.gpus
    if options.labels is not None and kind not in _GENERATIVE:
        raise UsageError(f"--labels {options.labels} applies only to rq-rag and ra-isf, not to {kind}")
    if labels_only and dry_run:
        raise UsageError("--labels only and --dry-run exclude each other: leave one out")
    if labels_only:
        arguments["labels_only"] = True
    if options.labels is not None and not labels_only:
        arguments["labels" if kind == "ra-isf" else "transcripts"] = options.labels
    elif kind == "rq-rag" or (kind == "ra-isf" and any(getattr(config, f"{task}_from") != "data" for task in tasks)):
        arguments["teacher"] = factories.load_lm(options, asks=not dry_run and is_main_process())
    with ExitStack() as stack:
        with main_process_first():
            dataset = _load_data(options, paper and paper.questions)
            searches = kind != "ra-isf" or ("relevant" in tasks and options.labels in (None, "only"))
            retriever = stack.enter_context(factories.open_index(options, dataset)) if searches else None
        trained = getattr(training, kind.replace("-", "_"))(
            dataset,
            output=output,
            retriever=retriever,
            config=config,
            limit=options.limit,
            dry_run=dry_run,
            progress=stack.enter_context(progress(kind)),
            **arguments,
        )
    if not is_main_process():
        return
    made = trained if kind == "ra-isf" else {kind: trained}
    if paper:
        remark(f"the paper: {paper.data}")
    if paper and dry_run:
        made = {name: _of_paper(plan, config, paper.examples) for name, plan in made.items()}
    show: Any = _show_plans if dry_run or labels_only else _show_trained
    show(made, as_json)


def _of_paper(plan: TrainingPlan, config: LanguageModelConfig, examples: int) -> TrainingPlan:
    """The plan of a training with another number of examples of the same size."""
    ratio = examples / max(1, plan.examples)
    calls = round(plan.teacher_calls * ratio)
    return replace(plan, examples=examples, steps=config.steps(examples), hours=plan.hours * ratio, teacher_calls=calls)


def _load_data(options: TrainOptions, questions: int | None) -> Dataset:
    """The data set of the options, or that many of its training questions."""
    from knowgap.compiling.data import split

    dataset = factories.load_data(options)
    if questions is None:
        return dataset
    drawn = split(dataset.splits["train"], {"train": questions}, options.seed)
    return replace(dataset, splits={**dataset.splits, **drawn})


def _show_plans(plans: Mapping[str, TrainingPlan], as_json: bool) -> None:
    if as_json:
        out.print_json(data={name: asdict(plan) for name, plan in plans.items()})
        return
    rows = [
        [name, f"{plan.examples:,}", f"{plan.steps:,}", f"{plan.hours:.2g}", f"{plan.teacher_calls:,}"]
        for name, plan in plans.items()
    ]
    show_table("what the training takes", ["model", "examples", "steps", "hours", "calls of the teacher"], rows)
    for name, plan in plans.items():
        if plan.memory:
            _show_memory(name, plan)


def _show_memory(name: str, plan: TrainingPlan) -> None:
    number, size = plan.gpus or (1, None)
    rows: list[list[str]] = []
    for need in plan.memory:
        ways = {"yes": need.whole, "checkpointed": need.checkpointed}
        fits = "" if size is None else next((way for way, needed in ways.items() if needed <= size), "no")
        figures = [f"{each:.1f}" for each in (need.states, need.checkpointed, need.whole)]
        rows.append([need.method, "yes" if need.fsdp else "no", *figures, fits, f"{need.disk:.0f}"])
    where = "the memory of this machine" if size is None else f"{number} GPU{'s' * (number > 1)} of {size:g} GB"
    show_table(
        f"{name}: GB for each process on {where}",
        ["way", "fsdp", "states", "checkpointed", "whole", "fits", "disk"],
        rows,
        caption="checkpointed: in all, with gradient checkpointing; whole: without. Hours by "
        f"{plan.tokens_per_second:.3g} tokens a second and process, estimated on this machine.",
    )


def _show_trained(models: Mapping[str, Trained], as_json: bool) -> None:
    """Show what the trainings did, and how the models compare before and after them."""
    facts = dict[str, Any]()
    for name, trained in models.items():
        done, scores = trained.training, trained.scores
        for note in trained.notes:
            remark(note)
        if done.trained_before:
            remark(f"{done.folder} already exists and was trained with the same settings and data: nothing to do")
        else:
            continued = f", continued from step {done.resumed_from}" if done.resumed_from else ""
            figures = f"{done.steps} steps in {done.seconds:.0f} s, loss {done.final_loss:.4f}"
            remark(f"trained {done.folder}: {figures}{continued}")
        compared = {model: each.model_dump(mode="json") for model, each in scores.items()}
        facts[name] = {**asdict(done), "folder": str(done.folder), "scores": compared}
        if scores and not as_json:
            _show_scores(name, scores)
    if as_json:
        out.print_json(data=facts)


def _show_scores(name: str, scores: Mapping[str, ModelScores]) -> None:
    first, *_ = scores
    main, *others = means = scores[first].means
    rows = [
        [
            model,
            *(str(each.means[metric]) for metric in means),
            "" if each.comparison is None else f"{each.comparison.p_value:.3f}",
        ]
        for model, each in scores.items()
    ]
    title = f"{name}: {means[main].n} questions, unseen in training"
    show_table(title, ["model", main, *others, "p"], rows, caption=f"p: of {main}, against {first} (paired)")
