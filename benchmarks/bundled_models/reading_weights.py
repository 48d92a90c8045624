"""Writes a trained span head as `knowgap.lms.embedded.span_head` loads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from knowgap.retrieval.minilm import minilm_folder, write_weights

_GROUP = 64  # columns that share a step


def export(model: Any, folder: str | Path) -> Path:
    """Write a trained network as `SpanHead` loads it.

    Matrices are stored as their differences to MiniLM's, in four bits; vectors as differences in 16 bits.

    Args:
        model: of `train`, on any device.
        folder: gets `span_head.safetensors` and `span_head.json`.

    Returns:
        The file of weights.
    """
    from transformers import AutoModel

    base = dict(AutoModel.from_pretrained(str(minilm_folder())).named_parameters())
    tensors: dict[str, npt.NDArray[Any]] = {"output": model.output.weight.detach().cpu().numpy().astype(np.float16)}
    for name, parameter in model.encoder.named_parameters():
        if parameter.requires_grad:
            change = (parameter.detach().cpu().float() - base[name].detach().float()).numpy()
            if change.ndim == 2:
                tensors[name], tensors[f"{name}.scale"] = pack_nibbles(change)
            else:
                tensors[name] = change.astype(np.float16)
    return write_weights(folder, "span_head", tensors)


def pack_nibbles(matrix: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float16]]:
    """Store a matrix in four bits a number, as `unpack_nibbles` reads it; each group has the step with the least error.

    Args:
        matrix: [rows, columns], columns a multiple of 64.

    Returns:
        Packed [rows, columns / 2], and steps [rows, columns / 64].
    """
    groups = matrix.reshape(len(matrix), -1, _GROUP)
    largest = np.maximum(np.abs(groups).max(axis=-1), 1e-6)
    tried = [(largest * share / 7).astype(np.float16) for share in (1.0, 0.9, 0.8, 0.7, 0.6)]
    errors = [
        ((_steps(groups, step) * step.astype(np.float32)[..., None] - groups) ** 2).sum(axis=-1) for step in tried
    ]
    best = np.argmin(errors, axis=0)
    scale = np.choose(best, tried)
    numbers = (_steps(groups, scale) + 8).astype(np.uint8).reshape(matrix.shape)
    return (numbers[:, ::2] | (numbers[:, 1::2] << 4)).astype(np.uint8), scale


def _steps(groups: npt.NDArray[np.float32], scale: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    steps = np.maximum(scale.astype(np.float32), 1e-8)[..., None]
    return np.clip(np.round(groups / steps), -7, 7).astype(np.float32)
