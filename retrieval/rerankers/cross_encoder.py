"""Cross-encoders of sentence-transformers, loaded and called in one way for reranking and for entailment."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from knowgap.errors import CheckpointError
from knowgap.retrieval.colbert.encoder import batches_of_one_width
from knowgap.retrieval.colbert.stock_runtime import quiet_transformers
from knowgap.retrieval.device import choose_device, half_precision

if TYPE_CHECKING:
    import torch

__all__ = ["check_model_name", "load_cross_encoder", "predict"]

_TOKENS_PER_BATCH = {"cpu": 2048, "cuda": 32_768}  # on a CPU, what stays in its cache
_one_at_a_time = threading.Lock()  # a tokenizer cannot be used by two threads; the model takes all cores anyway


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
    for module in encoder.modules():
        if isinstance(module, torch.nn.Linear) and module.out_features == encoder.num_labels:
            _in_full_precision(module)
    return encoder


def _in_full_precision(linear: torch.nn.Linear) -> None:
    """Let a layer compute as its weights are stored, whatever precision is asked for: 8 bits would make ties."""
    import torch

    forward = linear.forward

    def full(input: torch.Tensor) -> torch.Tensor:  # named as in torch
        with torch.autocast(input.device.type, enabled=False):
            return forward(input.to(linear.weight.dtype))

    linear.forward = full


def predict(encoder: Any, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
    """Raw logits, [pairs, labels], computed in half precision where the processor does: right to two or three digits.

    Pairs of one length are batched together.
    """
    logits = np.empty((len(pairs), encoder.num_labels))
    if not pairs:
        return logits
    device = encoder.device.type
    capacity = _TOKENS_PER_BATCH.get(device, _TOKENS_PER_BATCH["cuda"])
    with _one_at_a_time, half_precision(device):
        lengths = [
            len(ids) for ids in encoder.tokenizer(*map(list, zip(*pairs, strict=True)), truncation=True)["input_ids"]
        ]
        for batch, _ in batches_of_one_width(lengths, capacity):
            values = encoder.predict([pairs[i] for i in batch], batch_size=len(batch), show_progress_bar=False)
            logits[batch] = values.reshape(len(batch), -1)
    return logits
