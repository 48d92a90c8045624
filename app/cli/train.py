"""The group of commands `knowgap train`: models that are trained on one's own questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table

if TYPE_CHECKING:
    from knowgap.compiling.data import Dataset
    from knowgap.compiling.training import TrainedRanking, TrainingConfig, TrainingPlan, TrainingResult
    from knowgap.retrieval.passage import Retriever

HELP = "Train models on your own questions: each command, a kind of model."

Data = Annotated[str, Option("--data", "-d", envvar="KNOWGAP_DATA", help="Data set: see `knowgap eval`.")]
Corpus = Annotated[Path | None, Option("--corpus", help="Passages instead of those that come with the questions.")]
Index = Annotated[
    str | None,
    Option("--index", "-i", envvar="KNOWGAP_INDEX", help="Index folder; without it, one of the data's own passages."),
]
Base = Annotated[
    str, Option("--model", help="Model to start from, by path or hub name; embedded is the embedded reader's.")
]
Generative = Annotated[str, Option("--model", help="Model to start from, by path or hub name.")]
Output = Annotated[Path, Option("--output", "-o", help="Folder of the trained model.")]
Settings = Annotated[
    list[str] | None,
    Option("--set", "-s", help="A setting, as name=value, such as epochs=2: see docs/training.md. Can be repeated."),
]
DryRun = Annotated[
    bool, Option("--dry-run", help="Train nothing; show examples, steps, estimated hours and calls of a teacher.")
]
SubModels = Annotated[
    list[str] | None,
    Option("--sub-model", help="Train this one: know, relevant or decompose. Can be repeated. [default: all three]"),
]
C = TypeVar("C", bound="TrainingConfig")


def reranker(
    *,
    output: Output,
    model: Base = "embedded",
    data: Data = "sample",
    corpus: Corpus = None,
    index: Index = None,
    limit: o.Limit = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    as_json: o.Json = False,
) -> None:
    """Train a cross-encoder on gold passages and the wrong ones that an index ranks highest.

    It is trained on the split `train`, and measured on the questions of another split that are not in it.
    """
    from knowgap.compiling import training

    config = _config(training.RerankerConfig, settings)
    with _opened(data, corpus, index) as (dataset, retriever), progress("reranker") as report:
        trained = training.reranker(
            dataset, retriever, output, base=model, config=config, limit=limit, dry_run=dry_run, progress=report
        )
    _show_ranking(trained, as_json)


def colbert(
    *,
    output: Output,
    model: Base = "embedded",
    data: Data = "sample",
    corpus: Corpus = None,
    index: Index = None,
    limit: o.Limit = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    as_json: o.Json = False,
) -> None:
    """Train token vectors on gold passages and wrong ones that an index finds; `index --checkpoint` takes them.

    They are trained on the split `train`, and measured on the questions of another split that are not in it.
    """
    from knowgap.compiling import training

    config = _config(training.ColBERTConfig, settings)
    with _opened(data, corpus, index) as (dataset, retriever), progress("colbert") as report:
        trained = training.colbert(
            dataset, retriever, output, base=model, config=config, limit=limit, dry_run=dry_run, progress=report
        )
    _show_ranking(trained, as_json)


def ra_isf(
    *,
    output: Output,
    model: Generative,
    sub_model: SubModels = None,
    data: Data = "sample",
    corpus: Corpus = None,
    index: Index = None,
    limit: o.Limit = None,
    lm: o.Lm = None,
    api_base: o.ApiBase = None,
    lm_option: o.LmOption = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    as_json: o.Json = False,
) -> None:
    """Train RA-ISF's sub-models: self-knowledge, relevance of passages, decomposition of questions.

    Writes OUTPUT/know, OUTPUT/relevant and OUTPUT/decompose, and beside each the labels that it learnt from, by a
    teacher (--lm) or from the data. A run that was killed continues.
    """
    from knowgap.compiling import training
    from knowgap.compiling.training.sub_models import TASKS, asks_teacher, check_tasks

    config = _config(training.SubModelConfig, settings)
    tasks = check_tasks(sub_model or TASKS)
    teacher = None
    if any(asks_teacher(task, config) for task in tasks):
        teacher = factories.load_lm(lm, api_base, lm_option, asks=not dry_run)
    with _opened(data, corpus, index, search="relevant" in tasks) as (dataset, retriever), progress("ra-isf") as report:
        trained = training.ra_isf(
            dataset,
            output,
            base=model,
            teacher=teacher,
            retriever=retriever,
            tasks=tasks,
            config=config,
            limit=limit,
            dry_run=dry_run,
            progress=report,
        )
    rows, facts = list[list[Any]](), list[dict[str, Any]]()
    for task, each in trained.items():
        if isinstance(each, training.TrainingPlan):
            rows.append([task, *_plan_cells(each)])
            facts.append({"sub_model": task, **asdict(each)})
            continue
        labelling = each.labelling
        remark(
            f"{task}: {len(labelling.examples) - each.held_out} examples and {each.held_out} held out; "
            f"{labelling.calls} calls of the teacher, {labelling.kept} labels from before, "
            f"{labelling.unlabelled} without a label"
        )
        _remark_on(each.training)
        measured = {"majority": each.majority, "before": each.before, "after": each.after}
        scores = {when: value for when, value in measured.items() if value is not None}
        if scores:
            figures = {when: value.model_dump(mode="json") for when, value in scores.items()}
            folder = str(each.training.folder)
            facts.append({"sub_model": task, "folder": folder, "held_out": each.held_out, **figures})
            for cells in zip(*(value.rows() for value in scores.values()), strict=True):
                rows.append([task, cells[0][0], *(str(value) for _, value in cells)])
    if as_json:
        out.print_json(data=facts)
    elif dry_run:
        show_table("what labelling and training take", ["sub-model", *_PLAN], rows)
    elif rows:
        columns = ["sub-model", "agreement with the labels", "majority", "before", "after"]
        show_table("on questions held out", columns, rows)


def rq_rag(
    *,
    output: Output,
    model: Generative,
    data: Data = "sample",
    corpus: Corpus = None,
    index: Index = None,
    limit: o.Limit = None,
    lm: o.Lm = None,
    api_base: o.ApiBase = None,
    lm_option: o.LmOption = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    as_json: o.Json = False,
) -> None:
    """Train RQ-RAG's generator on transcripts that a teacher (--lm) writes.

    The transcripts are made of the split `train` and kept beside the output, as OUTPUT-transcripts.jsonl: the same
    command continues them. The generator is measured on the questions of another split that are not in it.
    """
    from knowgap.compiling import compare, training
    from knowgap.compiling.training.generator import METRICS

    config = _config(training.GeneratorConfig, settings)
    teacher = factories.load_lm(lm, api_base, lm_option, asks=not dry_run)
    with _opened(data, corpus, index) as (dataset, retriever), progress("rq-rag") as report:
        trained = training.rq_rag(
            dataset,
            retriever,
            output,
            base=model,
            teacher=teacher,
            config=config,
            limit=limit,
            dry_run=dry_run,
            progress=report,
        )
    if isinstance(trained, training.TrainingPlan):
        _show_plan(trained, as_json)
        return
    made, scores = trained.transcripts, trained.scores
    counts = ", ".join(f"{count} {what}" for what, count in made.counts().items())
    remark(f"transcripts: {len(made.kept)} of {len(made.records)} questions ({counts}); {made.calls} teacher calls")
    if trained.too_long:
        remark(f"{len(trained.too_long)} transcripts are longer than {config.max_length} tokens: left out")
    _remark_on(trained.training)
    readable = {
        name: 1 - sum(r.cost.unreadable for r in each.records) / max(1, sum(r.cost.lm_calls for r in each.records))
        for name, each in scores.items()
    }
    if as_json:
        figures = [{"generator": n, "readable": readable[n], **e.summary()["scores"]} for n, e in scores.items()]
        facts = {**asdict(trained.training), "folder": str(output)}
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


COMMANDS: dict[str, Callable[..., None]] = {
    "reranker": reranker,
    "colbert": colbert,
    "ra-isf": ra_isf,
    "rq-rag": rq_rag,
}

_PLAN = ["examples", "steps", "hours", "calls of the teacher"]


def _config(kind: type[C], settings: Sequence[str] | None) -> C:
    values: dict[str, Any] = factories.named_values(settings, "--set")
    return kind(**values)


@contextmanager
def _opened(
    data: str, corpus: Path | None, index: str | None, *, search: bool = True
) -> Iterator[tuple[Dataset, Retriever | Any]]:
    """The data set, and its index if one is needed."""
    options = o.DataOptions(data=data, folder=index, corpus=corpus)
    dataset = factories.load_data(options)
    if not search:
        yield dataset, None
        return
    with factories.open_index(options, dataset) as retriever:
        yield dataset, retriever


def _plan_cells(plan: TrainingPlan) -> list[str]:
    return [f"{plan.examples:,}", f"{plan.steps:,}", f"{plan.hours:.2g}", f"{plan.teacher_calls:,}"]


def _show_plan(plan: TrainingPlan, as_json: bool) -> None:
    if as_json:
        out.print_json(data=asdict(plan))
    else:
        show_table("what the training takes", _PLAN, [_plan_cells(plan)])


def _remark_on(result: TrainingResult) -> None:
    """Say what a training did."""
    if result.trained_before:
        remark(f"{result.folder} is there already, trained with the same settings and data")
        return
    continued = f", continued from step {result.resumed_from}" if result.resumed_from else ""
    done = f"{result.steps} steps in {result.seconds:.0f} s, loss {result.final_loss:.4f}"
    remark(f"trained {result.folder}: {done}{continued}")


def _show_ranking(trained: TrainedRanking | TrainingPlan, as_json: bool) -> None:
    """Show what a training takes, or how well gold passages are ranked before and after it."""
    from knowgap.compiling.training import TrainingPlan

    if isinstance(trained, TrainingPlan):
        _show_plan(trained, as_json)
        return
    _remark_on(trained.training)
    scores = trained.scores
    if as_json:
        facts = {**asdict(trained.training), "folder": str(trained.training.folder)}
        out.print_json(data={**facts, "scores": [score.model_dump() for score in scores]})
    elif scores:
        cutoffs = list(scores[0].recall)
        rows = []
        for score in scores:
            p_value = "" if score.comparison is None else f"{score.comparison.p_value:.3f}"
            rows.append([score.order, *(str(score.recall[k]) for k in cutoffs), str(score.mrr), p_value])
        columns = ["order", *(f"gold in best {k}" for k in cutoffs), "MRR", "p"]
        caption = f"p: of gold in best {cutoffs[0]}, against {scores[0].order} (paired)"
        show_table(f"{scores[0].mrr.n} questions, unseen in training", columns, rows, caption=caption)
