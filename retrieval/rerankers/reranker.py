"""Rerankers: their interface, the base class of models that score pairs of texts, and cross-encoders."""

from __future__ import annotations

import functools
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError
from knowgap.plugins import make
from knowgap.retrieval.hub import check_trained, choose_device, half_precision, loading_model
from knowgap.retrieval.lru_cache import LRUCache
from knowgap.retrieval.passage import SCORE_DECIMALS, NeverCopied, encodable
from knowgap.storage.files import file_digest, folder_digest

_CACHED_PAIRS = 262_144
_BATCH_SIZE = {"cpu": 8, "cuda": 64}  # on a CPU, as many pairs as fit into its cache
_prediction_lock = threading.Lock()  # a tokenizer is not thread-safe; the model uses all cores anyway


@runtime_checkable
class Reranker(Protocol):
    """Scores how relevant a text is to a query, from both together.

    Attributes:
        name: the model.
        default_threshold: the score from which a text counts as relevant (MIGRES' δ), on this reranker's scale; None
            if unknown, in which case calibration sets it.
        scale: a description of the scores in words, without which a threshold has no meaning.
    """

    name: str
    default_threshold: float | None
    scale: str

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One raw score per (query, text) pair; higher is more relevant. Scores of known pairs are cached."""
        ...


class PairScorer(NeverCopied, ABC):
    """The base class of models that score pairs of texts.

    Args:
        name: the folder or file of the model's weights, or its name on the hub.
    """

    def __init__(self, name: str | Path) -> None:
        self.name, self.cache = str(name), LRUCache[tuple[str, str], float](_CACHED_PAIRS)
        self._weights = Path(name)

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the weights, which tells scores of different trainings apart; empty for a model on the hub."""
        if not self._weights.exists():
            return ""
        return folder_digest(self._weights) if self._weights.is_dir() else file_digest(self._weights)

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One score for each pair of texts; only those that are not in the cache are computed, each once."""
        return self.cache.get([(one, other) for one, other in map(encodable, pairs)], self._score)

    @abstractmethod
    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[float]: ...


class CrossEncoderReranker(PairScorer):
    """A cross-encoder of sentence-transformers, such as `BAAI/bge-reranker-base`.

    Scores are raw logits; a GPU computes them in half precision, accurate to two or three digits.

    Args:
        model: a folder, or a name on the Hugging Face hub.
        default_threshold: δ on the scale of this model. None means 3.0 for BGE-reranker-base (MIGRES' multi-hop
            setting), and none for any other, whose δ `knowgap compile --optimizer calibrate` finds.

    Raises:
        CheckpointError: no such model, one that lacks weights, or one that gives more than one score per pair.
    """

    def __init__(self, model: str | Path, *, default_threshold: float | None = None) -> None:
        super().__init__(model)
        self._model = load_cross_encoder(model)
        if self._model.num_labels != 1:
            raise CheckpointError(f"{model} gives {self._model.num_labels} scores to a pair, but must give 1")
        own = 3.0 if is_bge_base(self.name) else None
        self.default_threshold: float | None = own if default_threshold is None else default_threshold
        self.scale = f"raw logits of {self.name}"

    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return predict_logits(self._model, pairs)[:, 0].tolist()


def make_reranker(name: str | Path) -> Reranker:
    """Load a reranker by name.

    Args:
        name: `embedded`; the folder or hub name of a cross-encoder; or `module:Name` of a plugin.

    Raises:
        CheckpointError: no such model.
        UsageError: a plugin cannot be imported or made, or is not a reranker.
    """
    if str(name) == "embedded":
        name = "knowgap.retrieval.rerankers.relevance:EmbeddedReranker"
    found = make("reranker", name, Reranker)
    return CrossEncoderReranker(name) if found is None else found


def is_bge_base(reranker: object) -> bool:
    """Whether a reranker, or its folder or hub name, is BGE-reranker-base, on whose logits MIGRES states thresholds."""
    return Path(str(getattr(reranker, "name", reranker))).name.casefold() == "bge-reranker-base"


def load_cross_encoder(model: str | Path) -> Any:
    """Load a `sentence_transformers.CrossEncoder` by folder or hub name.

    Raises:
        CheckpointError: no such model, or one without some of its weights, such as a bi-encoder.
    """
    import torch

    with loading_model(model) as (source, arguments):
        from sentence_transformers import CrossEncoder

        place = choose_device()
        encoder: Any = CrossEncoder(source, device=place, activation_fn=torch.nn.Identity(), **arguments)
        if not hasattr(encoder.transformers_model, "peft_config"):
            # On the device `meta`, names and shapes are compared and no weights are read.
            network = type(encoder.transformers_model)
            _, report = network.from_pretrained(source, device_map="meta", output_loading_info=True, **arguments)
            check_trained(model, network, report)
    return encoder


def predict_logits(encoder: Any, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
    """Raw logits, [pairs, labels], rounded to `SCORE_DECIMALS`; a GPU computes them in half precision."""
    batch_size = _BATCH_SIZE.get(encoder.device.type, _BATCH_SIZE["cuda"])
    with _prediction_lock, half_precision(encoder.device.type):
        logits = encoder.predict(list(pairs), batch_size=batch_size, show_progress_bar=False)
    return np.asarray(logits, dtype=np.float64).reshape(len(pairs), -1).round(SCORE_DECIMALS)
