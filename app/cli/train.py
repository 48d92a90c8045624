"""The command that trains models on the user's own questions: train."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import progress, remark
from knowgap.storage.processes import is_main_process, main_process_first

if TYPE_CHECKING:
    from knowgap.compiling.training import TrainingResult


@dataclass(frozen=True)
class TrainOptions(o.ModelOptions, o.DataOptions):
    """What a model is trained on and starts from."""

    model: Annotated[
        str | None,
        Option(
            "--model",
            help="Model to start from, by path or hub name. A reranker starts from the embedded reader's unless "
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

    settings = factories.named_values(options.settings, "--set")
    named = {"base": options.model or "", "preset": options.preset, "limit": options.limit}
    teacher = None if kind == "reranker" else factories.load_lm(options, asks=is_main_process())
    with ExitStack() as stack:
        with main_process_first():
            dataset = factories.load_data(options)
            retriever = stack.enter_context(factories.open_index(options, dataset))
        run = Run(lm=teacher, seed=options.seed, progress=stack.enter_context(progress(kind)))
        trained = training.train(kind, dataset, retriever, output, run=run, **named, **settings)
    if is_main_process():
        for done in trained:
            _show(done)


def _show(done: TrainingResult) -> None:
    """Show what a training did."""
    for note in done.notes:
        remark(note)
    if done.trained_before:
        remark(f"{done.folder} already exists and was trained with the same settings and data: nothing to do")
    else:
        figures = f"{done.steps} steps in {done.seconds:.0f} s, loss {done.final_loss:.4f}"
        remark(f"trained {done.folder}: {figures}" + (f", from step {done.resumed_from}" if done.resumed_from else ""))
