"""Cross-encoders of sentence-transformers, loaded and called in one way for reranking and for entailment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError
from knowgap.retrieval.colbert_runtime import quiet_transformers
from knowgap.retrieval.encoder import choose_device

__all__ = ["check_model_name", "load_cross_encoder", "predict"]

_PAIRS_AT_ONCE = 64


def check_model_name(model: str | Path) -> str:
    """The name as it is given, if it is a model folder or can be a hub name.

    Raises:
        CheckpointError: it is neither.
    """
    name = str(model)
    if Path(name).is_dir():
        if not (Path(name) / "config.json").is_file():
            raise CheckpointError(f"{name}: not a model folder (it has no config.json)")
    elif name.count("/") > 1 or name.startswith((".", "/", "~")) or not name.strip():
        raise CheckpointError(f"{name!r}: no such model folder, and not a hub name such as BAAI/bge-reranker-base")
    return name


def load_cross_encoder(model: str | Path, *, device: str | None, labels: int | None = None) -> Any:
    """A `sentence_transformers.CrossEncoder`.

    Args:
        model: a folder or a hub name.
        device: where to compute; None chooses.
        labels: how many scores it must give to a pair.

    Raises:
        CheckpointError: no such model, or one with another number of scores.
    """
    name = check_model_name(model)
    with quiet_transformers():
        import torch
        from sentence_transformers import CrossEncoder

        try:
            encoder = CrossEncoder(name, device=choose_device(device), activation_fn=torch.nn.Identity())
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise CheckpointError(f"{name}: cannot be loaded as a cross-encoder ({reason})") from error
    if labels is not None and encoder.num_labels != labels:
        raise CheckpointError(f"{name}: gives {encoder.num_labels} scores to a pair, where {labels} is needed")
    return encoder


def predict(encoder: Any, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
    """Raw logits, [pairs, labels]; pairs of like length are batched together."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]) + len(pairs[i][1]))
    logits = encoder.predict([pairs[i] for i in order], batch_size=_PAIRS_AT_ONCE, show_progress_bar=False)
    result = np.empty((len(pairs), encoder.num_labels))
    result[order] = np.asarray(logits, dtype=np.float64).reshape(len(pairs), -1)
    return result
