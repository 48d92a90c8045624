"""The options that the commands of `knowgap train` share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from knowgap.cli import options as o
from knowgap.cli.display import out, progress, remark, show_table
from knowgap.cli.given import OptionGroup

if TYPE_CHECKING:
    from knowgap.compiling.training.colbert import ColBERTTraining
    from knowgap.compiling.training.config import TrainingConfig
    from knowgap.compiling.training.plan import TrainingPlan
    from knowgap.compiling.training.ranking import RankingScore
    from knowgap.compiling.training.reranker import RerankerTraining
    from knowgap.compiling.training.trainer import TrainingResult

__all__ = [
    "Base",
    "DryRun",
    "Negatives",
    "Output",
    "RankingOptions",
    "TrainingOptions",
    "remark_on",
    "show_plan",
    "show_scores",
    "train_ranking",
]

Base = Annotated[
    str, Option("--model", help="Model to start from, by path or hub name; embedded is the embedded reader's.")
]
Output = Annotated[Path, Option("--output", "-o", help="Folder of the trained model.")]
DryRun = Annotated[
    bool, Option("--dry-run", help="Train nothing; show examples, steps, estimated hours and calls of a teacher.")
]


Negatives = Annotated[int, Option("--negatives", min=1, help="Wrong passages for each gold one.")]


@dataclass(frozen=True)
class RankingOptions(o.DataOptions):
    """Questions with gold passages, and the index that finds wrong ones."""

    split: Annotated[
        str, Option("--split", help="Split to measure on: dev or test. Questions of the split train are left out.")
    ] = "test"
    measure: Annotated[
        bool, Option("--measure/--no-measure", help="Measure where gold passages rank, before and after.")
    ] = True


@dataclass(frozen=True)
class TrainingOptions(OptionGroup):
    """How a model is trained; what is not given is what the command sets."""

    epochs: Annotated[float | None, Option("--epochs", help="Passes over the examples.")] = None
    learning_rate: Annotated[float | None, Option("--learning-rate", help="Highest learning rate.")] = None
    batch_size: Annotated[int | None, Option("--batch-size", help="Examples at once, on each device.")] = None
    gradient_accumulation: Annotated[
        int | None, Option("--gradient-accumulation", help="Batches to one step of the optimizer.")
    ] = None
    warmup_ratio: Annotated[
        float | None, Option("--warmup-ratio", help="Share of the steps in which the learning rate rises.")
    ] = None
    max_length: Annotated[int | None, Option("--max-length", help="Tokens of an example; the rest is cut off.")] = None
    lora_rank: Annotated[
        int | None, Option("--lora-rank", help="Train LoRA matrices of this rank instead of all weights.")
    ] = None
    seed: o.Seed = 0
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace another model in the output folder, or an interrupted run.")
    ] = False
    dry_run: DryRun = False

    def config(self, defaults: TrainingConfig) -> TrainingConfig:
        """The settings of the run: the options that are given, and the defaults of the command."""
        given: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(defaults)}
        return replace(defaults, **{name: value for name, value in given.items() if value is not None})


def show_plan(plan: TrainingPlan, *, as_json: bool) -> None:
    """Print what a run takes, for --dry-run."""
    if as_json:
        out.print_json(data=vars(plan))
    else:
        show_table("what the training takes", ["", "amount"], plan.rows())


def show_scores(result: TrainingResult, scores: Sequence[RankingScore], split: str, *, as_json: bool) -> None:
    """Print how well gold passages are ranked before and after the training."""
    if as_json:
        facts = {**asdict(result), "folder": str(result.folder)}
        out.print_json(data={**facts, "scores": [score.model_dump() for score in scores]})
        return
    cutoffs = list(scores[0].recall)
    rows = []
    for score in scores:
        p_value = "" if score.comparison is None else f"{score.comparison.p_value:.3f}"
        rows.append([score.order, *(str(score.recall[k]) for k in cutoffs), str(score.mrr), p_value])
    columns = ["order", *(f"gold in best {k}" for k in cutoffs), "MRR", "p"]
    caption = f"p: of gold in best {cutoffs[0]}, against {scores[0].order} (paired)"
    show_table(
        f"{scores[0].mrr.n} questions of the split {split!r}, unseen in training", columns, rows, caption=caption
    )


def remark_on(result: TrainingResult) -> None:
    """Say on standard error what a run did."""
    if result.trained_before:
        remark(f"{result.folder} is there already, trained with the same settings and data")
        return
    continued = f", continued from step {result.resumed_from}" if result.resumed_from else ""
    done = f"{result.steps} steps in {result.seconds:.0f} s, loss {result.final_loss:.4f}"
    remark(f"trained {result.folder}: {done}{continued}")


def train_ranking(
    training: RerankerTraining | ColBERTTraining,
    config: TrainingConfig,
    examples: int,
    output: Path,
    options: TrainingOptions,
    *,
    as_json: bool,
) -> TrainingResult | None:
    """Train a model that ranks passages; in a dry run, show what that takes and return None."""
    from knowgap.compiling.training.plan import plan_training

    if options.dry_run:
        show_plan(plan_training(config, examples, seconds_per_step=training.seconds_per_step()), as_json=as_json)
        return None
    with progress("training") as report:
        result = training.run(output, overwrite=options.overwrite, progress=report)
    remark_on(result)
    return result
