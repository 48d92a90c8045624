"""The command that trains models on one's own questions: train."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.errors import UsageError

if TYPE_CHECKING:
    from knowgap.compiling.training import TrainedGenerator, TrainedRanking, TrainedSubModel, TrainingPlan

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
            help="With ra-isf: train this one of know, relevant and decompose. Can be repeated. [default: all three]",
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
        bool, Option("--dry-run", help="Train nothing; show examples, steps, estimated hours and calls of a teacher.")
    ] = False,
    as_json: o.Json = False,
) -> None:
    """Train a model on your own questions, and measure it on others. The same command continues a run that was killed.

    reranker is a cross-encoder, trained on gold passages and the wrong ones that an index ranks highest; `--part
    reranker=OUTPUT` takes it. colbert is the token vectors of an index, trained on the same; --engine-option
    checkpoint=OUTPUT of `knowgap index` takes them.

    ra-isf is RA-ISF's sub-models, OUTPUT/know, OUTPUT/relevant and OUTPUT/decompose, with the labels that they learn
    beside them. rq-rag is RQ-RAG's generator; its transcripts are in OUTPUT-transcripts.jsonl. A teacher (--lm) writes
    labels and transcripts.
    """
    from knowgap.compiling import training
    from knowgap.compiling.training.sub_models import TASKS, asks_teacher, check_tasks

    if options.model is None and kind in _GENERATIVE:
        raise UsageError(f"train {kind}: name the model to start from with --model")
    if options.sub_model and kind != "ra-isf":
        raise UsageError(f"--sub-model {options.sub_model[0]}: goes with ra-isf, not with {kind}")
    settings: dict[str, Any] = {**factories.named_values(options.settings, "--set")}
    config: Any = getattr(training, _CONFIGS[kind])(**{"seed": options.seed, **settings})
    arguments: dict[str, Any] = {} if options.model is None else {"base": options.model}
    tasks = check_tasks(options.sub_model or TASKS)
    if kind == "ra-isf":
        arguments["tasks"] = tasks
    if kind == "rq-rag" or (kind == "ra-isf" and any(asks_teacher(task, config) for task in tasks)):
        arguments["teacher"] = factories.load_lm(options, asks=not dry_run)
    dataset, searches = factories.load_data(options), kind != "ra-isf" or "relevant" in tasks
    with factories.open_index(options, dataset) if searches else nullcontext() as retriever, progress(kind) as report:
        trained = getattr(training, kind.replace("-", "_"))(
            dataset,
            output=output,
            retriever=retriever,
            config=config,
            limit=options.limit,
            dry_run=dry_run,
            progress=report,
            **arguments,
        )
    if dry_run:
        _show_plans(trained if kind == "ra-isf" else {kind: trained}, as_json)
        return
    show: Any = {"ra-isf": _show_sub_models, "rq-rag": _show_generator}.get(kind, _show_ranking)
    show(trained, as_json)


def _show_plans(plans: Mapping[str, TrainingPlan], as_json: bool) -> None:
    if as_json:
        out.print_json(data={name: asdict(plan) for name, plan in plans.items()})
        return
    rows = [
        [name, f"{plan.examples:,}", f"{plan.steps:,}", f"{plan.hours:.2g}", f"{plan.teacher_calls:,}"]
        for name, plan in plans.items()
    ]
    show_table("what the training takes", ["model", "examples", "steps", "hours", "calls of the teacher"], rows)


def _facts(trained: TrainedRanking | TrainedSubModel | TrainedGenerator) -> dict[str, Any]:
    """What a training did, for JSON; it is also said in a line."""
    done = trained.training
    if done.trained_before:
        remark(f"{done.folder} is there already, trained with the same settings and data")
    else:
        continued = f", continued from step {done.resumed_from}" if done.resumed_from else ""
        figures = f"{done.steps} steps in {done.seconds:.0f} s, loss {done.final_loss:.4f}"
        remark(f"trained {done.folder}: {figures}{continued}")
    return {**asdict(done), "folder": str(done.folder)}


def _show_ranking(trained: TrainedRanking, as_json: bool) -> None:
    """Show how well gold passages are ranked by the index, and by the model before and after the training."""
    facts, scores = _facts(trained), trained.scores
    if as_json:
        out.print_json(data={**facts, "scores": [score.model_dump() for score in scores]})
    elif scores:
        cutoffs = list(scores[0].recall)
        rows = [
            [
                score.order,
                *(str(score.recall[k]) for k in cutoffs),
                str(score.mrr),
                "" if score.comparison is None else f"{score.comparison.p_value:.3f}",
            ]
            for score in scores
        ]
        columns = ["order", *(f"gold in best {k}" for k in cutoffs), "MRR", "p"]
        caption = f"p: of gold in best {cutoffs[0]}, against {scores[0].order} (paired)"
        show_table(f"{scores[0].mrr.n} questions, unseen in training", columns, rows, caption=caption)


def _show_sub_models(trained: Mapping[str, TrainedSubModel], as_json: bool) -> None:
    """Show how sub-models agree with the labels that were held out."""
    rows, facts = list[list[Any]](), dict[str, Any]()
    for task, each in trained.items():
        labelling = each.labelling
        remark(
            f"{task}: {len(labelling.examples) - each.held_out} examples and {each.held_out} held out; "
            f"{labelling.calls} calls of the teacher, {labelling.kept} labels from before, "
            f"{labelling.unlabelled} without a label"
        )
        measured = {"majority": each.majority, "before": each.before, "after": each.after}
        scores = {when: value for when, value in measured.items() if value is not None}
        figures = {when: value.model_dump(mode="json") for when, value in scores.items()}
        facts[task] = {**_facts(each), "held_out": each.held_out, **figures}
        for cells in zip(*(value.rows() for value in scores.values()), strict=True):
            rows.append([task, cells[0][0], *(str(value) for _, value in cells)])
    if as_json:
        out.print_json(data=facts)
    elif rows:
        columns = ["sub-model", "agreement with the labels", "majority", "before", "after"]
        show_table("on questions held out", columns, rows)


def _show_generator(trained: TrainedGenerator, as_json: bool) -> None:
    """Show what became of the transcripts, and how the generator answers before and after the training."""
    from knowgap.compiling import compare
    from knowgap.compiling.training.generator import METRICS

    made, scores = trained.transcripts, trained.scores
    counts = ", ".join(f"{count} {what}" for what, count in made.counts().items())
    remark(f"transcripts: {len(made.kept)} of {len(made.records)} questions ({counts}); {made.calls} teacher calls")
    if trained.too_long:
        remark(f"{len(trained.too_long)} transcripts are too long: left out")
    facts = _facts(trained)
    readable = {
        name: 1 - sum(r.cost.unreadable for r in each.records) / max(1, sum(r.cost.lm_calls for r in each.records))
        for name, each in scores.items()
    }
    if as_json:
        figures = [{"generator": n, "readable": readable[n], **e.summary()["scores"]} for n, e in scores.items()]
        out.print_json(data={**facts, "transcripts": made.counts(), "scores": figures})
    elif scores:
        rows = [
            [name, *(str(each.interval(metric)) for metric in METRICS), f"{readable[name]:.1%}"]
            for name, each in scores.items()
        ]
        tested = compare(scores["trained, no search"], scores["trained"], "f1")
        show_table(
            f"{len(scores['trained'].records)} questions, unseen in training",
            ["generator", *METRICS, "can be read"],
            rows,
            caption=f"f1 with search against without: {tested.difference:+.3f}, p = {tested.p_value:.3f} (paired)",
        )


COMMANDS = {"train": train}
