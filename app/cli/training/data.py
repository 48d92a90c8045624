"""The questions that retrieval models are trained and measured on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowgap.cli.display import progress, remark
from knowgap.cli.training.options import RankingOptions
from knowgap.errors import UsageError

if TYPE_CHECKING:
    from knowgap.compiling.data import Dataset
    from knowgap.compiling.training.ranking import RankedQuestion
    from knowgap.retrieval.passage import Retriever

__all__ = ["load_questions"]


def load_questions(
    options: RankingOptions, dataset: Dataset, retriever: Retriever, *, depth: int
) -> tuple[list[RankedQuestion], list[RankedQuestion]]:
    """The questions to train on, and those to measure on, which are not among them; with what the index finds."""
    from knowgap.compiling.training.ranking import find_candidates, unseen

    if options.split == "train":
        raise UsageError("--split train: these are the questions that the model is trained on; name dev or test")
    train = dataset.questions("train", options.limit)
    test = unseen(dataset.questions(options.split, options.limit), dataset.splits["train"])
    if not test:
        raise UsageError(f"every question of the split {options.split!r} is in the split 'train', too")
    with progress("searching the index") as report:
        trained_on = find_candidates(train, retriever, dataset.corpus, depth=depth, progress=report)
        held_out = find_candidates(test, retriever, dataset.corpus, depth=depth, progress=report)
    remark(
        f"trained on {len(trained_on)} questions of the split 'train', measured on {len(held_out)} others of the "
        f"split {options.split!r}"
    )
    return trained_on, held_out
