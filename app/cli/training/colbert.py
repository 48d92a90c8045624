"""The command that trains a ColBERT checkpoint: train colbert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import progress
from knowgap.cli.given import grouped, refuse
from knowgap.cli.training import options as t
from knowgap.cli.training.data import load_questions

__all__ = ["COMMANDS", "colbert"]

_CUTOFFS = (5, 50)


@dataclass(frozen=True)
class ColBERTOptions(t.TrainingOptions, t.RankingOptions):
    """A ColBERT checkpoint, and the questions that it is trained and measured on."""

    negatives: t.Negatives = 4
    dim: Annotated[
        int | None,
        Option(
            "--dim", min=16, max=384, help="Width of the token vectors, with --model embedded. [default: as an index]"
        ),
    ] = None


@grouped
def colbert(*, model: t.Base = "embedded", output: t.Output, options: ColBERTOptions, as_json: o.Json = False) -> None:
    """Train token vectors on gold passages and wrong ones that an index finds; `index --checkpoint` takes them.

    They are trained on the split `train`, and measured on the questions of another split that are not in it.
    """
    from knowgap.compiling.training.colbert import COLBERT_CONFIG, ColBERTTraining, base_checkpoint, search_with
    from knowgap.compiling.training.ranking import compare_orders
    from knowgap.compiling.training.trainer import is_main_process, require_packages

    config = options.config(COLBERT_CONFIG)
    require_packages(config)
    if model != "embedded":
        refuse(["dim"], f"goes with --model embedded; {model} has its own width")
    dataset = factories.load_data(options)
    with factories.open_index(options, dataset) as retriever:
        trained_on, held_out = load_questions(options, dataset, retriever, depth=_CUTOFFS[-1])
    with base_checkpoint(model, dataset.corpus, options.dim) as base:
        training = ColBERTTraining(trained_on, base, name=model, config=config, negatives=options.negatives)
        result = t.train_ranking(training, config, training.rows, output, options, as_json=as_json)
        if result is None or not options.measure or not is_main_process():
            return
        orders = {"the index": [question.found for question in held_out]}
        for name, checkpoint in (("untrained", base), ("trained", output)):
            with progress(f"indexing, {name}") as report:
                orders[name] = search_with(checkpoint, held_out, dataset.corpus, depth=_CUTOFFS[-1], progress=report)
    t.show_scores(result, compare_orders(held_out, orders, _CUTOFFS), options.split, as_json=as_json)


COMMANDS = {"colbert": colbert}
