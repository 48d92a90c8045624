"""Trains the embedded reader's span head (`knowgap.lms.embedded.span_head`).

The head is the layers of MiniLM, and one linear layer above them. On a GPU it takes minutes, on a CPU days.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from bundled_models.reading_examples import ReadingExample, read_examples

from knowgap.cli.display import line_progress
from knowgap.compiling.training.config import TrainingConfig
from knowgap.compiling.training.fit import fit
from knowgap.lms.embedded.span_head import joined, tokenize_pairs
from knowgap.retrieval.hub import bfloat16_on, choose_device
from knowgap.retrieval.minilm import MINILM_DIGEST, minilm_folder, tokenizer_of, write_weights

_IGNORED = -1e4
_GROUP = 64  # columns of a matrix that share a step
_UNMARKED = 0.25  # share of the questions that lose their question mark, as people type them
_UNTITLED = 0.15  # share of the passages that lose their title

READING_CONFIG = TrainingConfig(epochs=3, learning_rate=2.5e-4, batch_size=192, warmup_ratio=0.05, max_length=160)
"""What the shipped weights were trained with, but for batches of examples of similar length, 24,576 tokens each."""


class _Feature(NamedTuple):
    ids: list[int]
    first: int
    starts: dict[int, float]  # probability of each position
    ends: dict[int, float]


def features(tokenizer: Any, examples: Sequence[ReadingExample], config: TrainingConfig) -> list[_Feature]:
    """Tokenize examples; longer passages are cut to a stretch that has an answer."""
    rng = random.Random(config.seed)
    made = []
    for example in examples:
        question = example.question.rstrip(" ?") if rng.random() < _UNMARKED else example.question
        title = "" if rng.random() < _UNTITLED else example.title
        before = len(joined(title, example.text)) - len(example.text)
        windows = tokenize_pairs(
            tokenizer, [(question, title, example.text)], config.max_length, config.max_length // 3
        )
        if example.answers:
            first, last = rng.choice(example.answers)
            windows = [w for w in windows if w.offsets[0][0] <= first + before and last + before <= w.offsets[-1][1]]
            if not windows:
                continue
        window = rng.choice(windows)
        starts, ends = Counter[int](), Counter[int]()
        for start, end in example.answers:
            places = enumerate(window.offsets, window.first)
            inside = [i for i, (a, b) in places if a < end + before and b > start + before]
            starts.update(inside[:1])
            ends.update(inside[-1:])
        made.append(_Feature(window.ids, window.first, _shares(starts), _shares(ends)))
    return made


def _shares(counts: Mapping[int, int]) -> dict[int, float]:
    """Counts as shares of their sum; without any, all of it on the first position, which stands for no answer."""
    return {i: count / sum(counts.values()) for i, count in counts.items()} or {0: 1.0}


def collate(batch: Sequence[_Feature]) -> dict[str, Any]:
    """One batch as tensors [examples, width]."""
    import torch

    width = -(-max(len(f.ids) for f in batch) // 8) * 8
    tensors = {name: torch.zeros(len(batch), width, dtype=torch.long) for name in ("ids", "attention", "types")}
    targets = torch.zeros(len(batch), width, 2)
    for row, feature in enumerate(batch):
        tensors["ids"][row, : len(feature.ids)] = torch.tensor(feature.ids)
        tensors["attention"][row, : len(feature.ids)] = 1
        tensors["types"][row, feature.first : len(feature.ids)] = 1
        for side, shares in enumerate((feature.starts, feature.ends)):
            for i, share in shares.items():
                targets[row, i, side] = share
    return {**tensors, "targets": targets}


def network() -> Any:
    """MiniLM with the output layer, its embeddings frozen; called on a batch it returns loss and logits."""
    import torch
    from transformers import AutoModel

    class SpanReader(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder: Any = AutoModel.from_pretrained(str(minilm_folder()), add_pooling_layer=False)
            self.encoder.embeddings.requires_grad_(False)
            self.output = torch.nn.Linear(self.encoder.config.hidden_size, 2, bias=False)
            torch.nn.init.normal_(self.output.weight, std=0.02)

        def forward(self, ids: Any, attention: Any, types: Any, targets: Any) -> dict[str, Any]:
            states = self.encoder(input_ids=ids, attention_mask=attention, token_type_ids=types).last_hidden_state
            logits = self.output(states).float()
            allowed = types.bool()  # the passage and its closing mark, which is never a target
            allowed[:, 0] = True
            logits = logits.masked_fill(~allowed[:, :, None], _IGNORED)
            loss = -(targets * logits.log_softmax(dim=1)).sum(dim=(1, 2)).mean()
            return {"loss": loss, "logits": logits}

    return SpanReader()


def train(data: Path, output: Path, seed: int) -> dict[str, Any]:
    """Train a span head, or continue to; returns how many steps were taken and the last loss, JSON-ready.

    Args:
        data: folder of training files; see `read_examples`.
        output: its folder `reading` gets the finished weights, which `SpanHead` loads.
        seed: of the run, in place of the one in `READING_CONFIG`.

    Raises:
        DataError: no training file is there, or one holds no JSON records.
        UsageError: as `knowgap.compiling.training.fit.fit`.
    """
    from transformers import Trainer, TrainingArguments

    config = READING_CONFIG.model_copy(update={"seed": seed})
    examples = read_examples(data, seed)
    made = features(tokenizer_of(minilm_folder()), examples, config)
    digest = hashlib.sha256(repr(examples).encode()).hexdigest()
    facts = {"kind": "span head", "encoder": MINILM_DIGEST, "data": digest}
    facts |= {"unmarked": _UNMARKED, "untitled": _UNTITLED}

    def build(arguments: dict[str, Any]) -> Trainer:
        device = choose_device()
        arguments |= {"bf16": bfloat16_on(device), "use_cpu": device == "cpu"}
        given = TrainingArguments(**arguments, weight_decay=0.01, remove_unused_columns=False)
        return Trainer(model=network(), args=given, train_dataset=cast("Any", made), data_collator=collate)

    shown = line_progress("reading")
    end = fit(output / "reading", config, build, lambda trainer, folder: export(trainer.model, folder), facts, shown)
    return {"steps": end.steps, "final_loss": end.final_loss}


def export(model: Any, folder: str | Path) -> None:
    """Write a trained network as `SpanHead` loads it: `span_head.safetensors` and `span_head.json`.

    Matrices are stored as their differences to MiniLM's, in four bits; vectors as differences in 16 bits.
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
    write_weights(folder, "span_head", tensors)


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
