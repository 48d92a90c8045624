"""A cross-encoder of MiniLM's size, with random weights."""

from __future__ import annotations

from pathlib import Path

from knowgap.retrieval.colbert.stock_runtime import quiet_transformers
from knowgap.retrieval.minilm import minilm_folder


def write_random_cross_encoder(folder: Path) -> None:
    """Write the model to a folder."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    source = str(minilm_folder())
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    config = BertConfig.from_pretrained(source, num_labels=1)
    torch.manual_seed(0)
    with quiet_transformers():
        BertForSequenceClassification(config).save_pretrained(folder)
