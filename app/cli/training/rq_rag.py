"""The command that trains RQ-RAG's generator: train rq-rag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.cli.evaluate import show_comparisons
from knowgap.cli.given import grouped
from knowgap.cli.training import options as t
from knowgap.errors import UsageError

if TYPE_CHECKING:
    import dspy

    from knowgap.compiling import Evaluation
    from knowgap.compiling.data import Dataset
    from knowgap.compiling.training.rq_rag.construct import Construction
    from knowgap.compiling.training.rq_rag.records import DataConfig
    from knowgap.compiling.training.trainer import TrainingResult
    from knowgap.retrieval.passage import Retriever

__all__ = ["COMMANDS", "rq_rag"]


@dataclass(frozen=True)
class GeneratorOptions(t.TrainingOptions, t.RankingOptions, o.ModelOptions):
    """A causal model, a teacher, and the questions that it is trained and measured on."""

    top_k: Annotated[int, Option("--top-k", min=1, max=20, help="Passages per query, in training and measuring.")] = 3
    max_queries: Annotated[int, Option("--max-queries", min=1, max=8, help="Queries of a transcript at most.")] = 4
    retention: Annotated[
        float,
        Option(
            "--retention",
            min=0,
            max=1,
            help="Share of the questions that keep the data's own answer instead of a new one.",
        ),
    ] = 0.0
    drop: Annotated[
        bool,
        Option("--drop/--keep", help="Leave out a transcript whose passages or answer do not match what is known."),
    ] = True
    mask_evidence: Annotated[
        bool, Option("--mask-evidence/--learn-evidence", help="Learn what the model writes itself alone.")
    ] = True
    depth: Annotated[int, Option("--depth", min=0, max=5, help="Depth of the tree when measuring.")] = 2
    measure: Annotated[bool, Option("--measure/--no-measure", help="Score before and after the training.")] = True
    num_threads: o.Threads = 4


@grouped
def rq_rag(
    *,
    model: Annotated[str, Option("--model", help="Causal model to start from, by path or hub name.")],
    output: t.Output,
    options: GeneratorOptions,
    as_json: o.Json = False,
) -> None:
    """Train RQ-RAG's generator on transcripts that a teacher (--lm) writes; --generator takes it.

    The transcripts are made of the split `train` and kept beside the output, as OUTPUT-transcripts.jsonl: the same
    command continues them. The generator is measured on the questions of another split that are not in it.
    """
    from knowgap.compiling.training.rq_rag.records import DataConfig
    from knowgap.compiling.training.rq_rag.train import GENERATOR_CONFIG, GeneratorTraining
    from knowgap.compiling.training.trainer import is_main_process, require_packages

    config = options.config(GENERATOR_CONFIG)
    require_packages(config)
    data_config = DataConfig(
        top_k=options.top_k,
        max_queries=options.max_queries,
        retention=options.retention,
        drop=options.drop,
        seed=options.seed,
    )
    if options.split == "train":
        raise UsageError("--split train: these are the questions that the model is trained on; name dev or test")
    dataset = factories.load_data(options)
    teacher = factories.load_lm(options.lm, options.api_base, options.lm_option, asks=not options.dry_run)
    with factories.open_index(options, dataset) as retriever:
        if options.dry_run:
            _show_plan(options, data_config, dataset, retriever, model, as_json)
            return
        made = _construct(options, data_config, dataset, retriever, teacher, output)
        training = GeneratorTraining(made.kept, model, config=config, mask_evidence=options.mask_evidence)
        if training.too_long:
            remark(f"{len(training.too_long)} transcripts are longer than {config.max_length} tokens: left out")
        with progress("training") as report:
            result = training.run(output, overwrite=options.overwrite, progress=report)
        t.remark_on(result)
        if not (options.measure and is_main_process()):
            return
        with TemporaryDirectory() as untrained:
            training.save_untrained(untrained)
            folders = {"untrained": Path(untrained), "trained": output}
            results = _measure(options, dataset, retriever, folders)
    _show(result, made, results, as_json)


def _show_plan(
    options: GeneratorOptions, config: DataConfig, dataset: Dataset, retriever: Retriever, model: str, as_json: bool
) -> None:
    """Show what the run takes; the teacher's transcripts are taken to be as long as those of the known answers."""
    from knowgap.compiling.training.plan import plan_training
    from knowgap.compiling.training.rq_rag.construct import draft_transcripts, teacher_calls
    from knowgap.compiling.training.rq_rag.train import GENERATOR_CONFIG, GeneratorTraining

    examples, settings = dataset.questions("train", options.limit), options.config(GENERATOR_CONFIG)
    drafts = draft_transcripts(examples[:64], retriever, config)
    training = GeneratorTraining(drafts, model, config=settings, mask_evidence=options.mask_evidence)
    plan = plan_training(
        settings,
        len(examples),
        seconds_per_step=training.seconds_per_step(),
        teacher_calls=teacher_calls(examples, config),
    )
    t.show_plan(plan, as_json=as_json)


def _construct(
    options: GeneratorOptions,
    config: DataConfig,
    dataset: Dataset,
    retriever: Retriever,
    teacher: dspy.LM,
    output: Path,
) -> Construction:
    """Let the teacher write transcripts, and say what became of the questions."""
    from knowgap.compiling.training.rq_rag.construct import construct_transcripts

    with progress("writing transcripts") as report:
        made = construct_transcripts(
            dataset.questions("train", options.limit),
            retriever,
            teacher,
            output.with_name(f"{output.name}-transcripts.jsonl"),
            config=config,
            passages={passage.id: passage for passage in dataset.corpus},
            num_threads=options.num_threads,
            progress=report,
        )
    counts = ", ".join(f"{count} {what}" for what, count in made.counts().items())
    remark(f"transcripts: {len(made.kept)} of {len(made.records)} questions ({counts}); {made.calls} teacher calls")
    return made


def _measure(
    options: GeneratorOptions, dataset: Dataset, retriever: Retriever, folders: Mapping[str, Path]
) -> dict[str, Evaluation]:
    """Score generators on unseen questions, and the trained one without search as well."""
    from knowgap.compiling import evaluate
    from knowgap.compiling.training.ranking import unseen
    from knowgap.lms import TranscriptGenerator
    from knowgap.programs.rq_rag import RQRAG

    held_out = unseen(dataset.questions(options.split, options.limit), dataset.splits["train"])
    if not held_out:
        raise UsageError(f"every question of the split {options.split!r} is in the split 'train', too")
    results = {}
    for name, folder, depth in (
        ("untrained", folders["untrained"], options.depth),
        ("trained, no search", folders["trained"], 0),
        ("trained", folders["trained"], options.depth),
    ):
        generator = TranscriptGenerator(folder, max_new_tokens=64)
        program = RQRAG(retriever, generator=generator, depth=depth, top_k=options.top_k)
        with progress(f"measuring, {name}") as report:
            results[name] = evaluate(
                program,
                held_out,
                ("f1", "exact_match", "upper_bound"),
                lm=generator.lm,
                num_threads=1,
                seed=options.seed,
                progress=report,
            )
        generator.close()
    return results


def _show(result: TrainingResult, made: Construction, results: Mapping[str, Evaluation], as_json: bool) -> None:
    """Show the scores, and how much of what the generators wrote can be read."""
    readable = {
        name: 1 - sum(r.cost.unreadable for r in each.records) / max(1, sum(r.cost.lm_calls for r in each.records))
        for name, each in results.items()
    }
    if as_json:
        facts: dict[str, Any] = {**asdict(result), "folder": str(result.folder)}
        scores = [
            {"generator": name, "readable": readable[name], **each.summary()["scores"]}
            for name, each in results.items()
        ]
        out.print_json(data={**facts, "transcripts": made.counts(), "scores": scores})
        return
    metrics = ("f1", "exact_match", "upper_bound")
    rows = [
        [name, *(str(each.interval(metric)) for metric in metrics), f"{readable[name]:.1%}"]
        for name, each in results.items()
    ]
    asked = len(next(iter(results.values())).records)
    show_table(f"{asked} questions, unseen in training", ["generator", *metrics, "can be read"], rows)
    show_comparisons({name: results[name] for name in ("trained, no search", "trained")}, "f1")


COMMANDS = {"rq-rag": rq_rag}
