"""The reranker that needs no download."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from knowgap.retrieval.rerankers.pair_scores import PairScorer, cached
from knowgap.retrieval.rerankers.relevance import RelevanceFeatures, RelevanceModel


class EmbeddedReranker(PairScorer):
    """What MiniLM knows of a query and a text, in one calibrated logit; trained on public questions.

    It is no cross-encoder: query and text are encoded separately. A logistic regression over MiniLM's similarity, the
    late interaction of the token vectors, and the coverage of the query's rare words by one sentence gives the log-odds
    that a text is gold, where as many of 50 retrieved texts are as in its training; `scale` says how many. At 0, a text
    is as likely gold as not. The default δ lets pass at least 90% of the gold that ranks among the best five, on each
    set of questions that was held out of the training in turn. The card beside the weights says how they were trained.

    Args:
        folder: where `benchmarks/train_bundled_models.py` wrote the model; None takes the one that comes
            with the package.

    Raises:
        CheckpointError: its files are missing or damaged.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        super().__init__()
        self._model, self._features = _load(folder)
        self.name = "embedded MiniLM similarity, late interaction and word coverage"
        self.default_threshold: float | None = self._model.delta
        self.scale = f"log-odds that a text is gold, where {self._model.prior:g} of 50 retrieved are"

    @cached
    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The logit of each (query, text) pair; the lowest there is, the model's intercept, if either is blank."""
        return self._model.logits(self._features.compute(pairs)).round(4).tolist()


@lru_cache(maxsize=4)
def _load(folder: str | Path | None) -> tuple[RelevanceModel, RelevanceFeatures]:
    """A model and its features; all rerankers of a process share the texts that these remember."""
    model = RelevanceModel.load(folder)
    return model, RelevanceFeatures(model.projection)
