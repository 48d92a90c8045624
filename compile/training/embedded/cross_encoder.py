"""The model that cross-encoders are trained from where none is named: the embedded reader's encoder."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from knowgap.lms.embedded import span_head
from knowgap.retrieval.minilm import add_changes, minilm_folder, read_weights
from knowgap.retrieval.rerankers.cross_encoder import loading_model
from knowgap.storage.files import file_digest

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

__all__ = ["EMBEDDED", "base_folder", "embedded_digest", "load_base"]

EMBEDDED = "embedded"
"""The name of the embedded reader's encoder: MiniLM, trained to find answers in passages."""

_WEIGHTS = Path(span_head.__file__).parent / "span_head.safetensors"
_SCALE = 0.25
"""What the reader's logit is multiplied by in the first score: small scores are soon moved by training."""


def base_folder(base: str) -> str:
    """The folder or hub name of a model to start from."""
    return _embedded().name if base == EMBEDDED else base


def load_base(base: str, max_length: int) -> CrossEncoder:
    """The cross-encoder to train, with one score; a last layer that the base lacks is drawn at random.

    Raises:
        CheckpointError: the base cannot be loaded.
    """
    with loading_model(base):
        from sentence_transformers import CrossEncoder

        return CrossEncoder(base_folder(base), num_labels=1, max_length=max_length)


def embedded_digest() -> str:
    """SHA-256 of the reader's weights."""
    return file_digest(_WEIGHTS)


@lru_cache(maxsize=1)
def _embedded() -> TemporaryDirectory[str]:
    """The reader's encoder as a cross-encoder, in a folder that is deleted when this process ends.

    A pair's score is the reader's logit against "not in this passage", scaled down and bounded.
    """
    import torch
    from sentence_transformers import CrossEncoder

    _, tensors = read_weights(_WEIGHTS.parent, _WEIGHTS.stem, dict)
    with loading_model(EMBEDDED):
        encoder = CrossEncoder(str(minilm_folder()), num_labels=1)
    network: Any = encoder.model
    add_changes(network.bert, tensors)
    pooler, scores = network.bert.pooler.dense, network.classifier
    none = torch.from_numpy(tensors["output"]).float().sum(dim=0)  # of start and end at the first position: no answer
    with torch.no_grad():
        pooler.weight[0], pooler.bias[0] = -0.1 * none, 0.0
        scores.weight.zero_()
        scores.bias.zero_()
        scores.weight[0, 0] = 10 * _SCALE
    folder = TemporaryDirectory(prefix="knowgap-")
    encoder.save_pretrained(folder.name, create_model_card=False)
    return folder
