"""The command that trains a reranker: train reranker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from knowgap.cli import factories
from knowgap.cli import options as o
from knowgap.cli.display import progress
from knowgap.cli.given import grouped
from knowgap.cli.training import options as t
from knowgap.cli.training.data import load_questions

__all__ = ["COMMANDS", "reranker"]


@dataclass(frozen=True)
class RerankerOptions(t.TrainingOptions, t.RankingOptions):
    """A cross-encoder, and the questions that it is trained and measured on."""

    negatives: t.Negatives = 4
    rerank: Annotated[int, Option("--rerank", min=1, help="Passages of the index that are reranked.")] = 50


@grouped
def reranker(
    *, model: t.Base = "embedded", output: t.Output, options: RerankerOptions, as_json: o.Json = False
) -> None:
    """Train a cross-encoder on gold passages and the wrong ones that an index ranks highest; --reranker takes it.

    It is trained on the split `train`, and measured on the questions of another split that are not in it.
    """
    from knowgap.compiling.training.ranking import compare_orders
    from knowgap.compiling.training.reranker import RERANKER_CONFIG, RerankerTraining, rerank, untrained_reranker
    from knowgap.compiling.training.trainer import is_main_process, require_packages
    from knowgap.retrieval import make_reranker

    config = options.config(RERANKER_CONFIG)
    require_packages(config)
    dataset = factories.load_data(options)
    with factories.open_index(options, dataset) as retriever:
        trained_on, held_out = load_questions(options, dataset, retriever, depth=options.rerank)
    training = RerankerTraining(trained_on, model, config=config, negatives=options.negatives)
    result = t.train_ranking(training, config, training.pairs, output, options, as_json=as_json)
    if result is None or not options.measure or not is_main_process():
        return
    orders = {"the index": [question.found for question in held_out]}
    for name, scorer in (("untrained", untrained_reranker(model, config.seed)), ("trained", make_reranker(output))):
        with progress(f"reranking, {name}") as report:
            orders[name] = rerank(scorer, held_out, progress=report)
    t.show_scores(result, compare_orders(held_out, orders), options.split, as_json=as_json)


COMMANDS = {"reranker": reranker}
