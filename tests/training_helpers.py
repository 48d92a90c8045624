"""A tiny causal language model that is trained on the spot; as a script, a run of it that is killed at step 13."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from knowgap.compiling.training.config import TrainingConfig
from knowgap.compiling.training.fit import TrainingResult, fit

SENTENCES = [[(7 * row + 3 * column) % 50 for column in range(12)] for row in range(40)]
CONFIG = TrainingConfig(epochs=2, learning_rate=1e-3, batch_size=4, max_length=12, seed=3)  # 20 steps


def build_tiny_trainer(settings: dict[str, Any]) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    config = GPT2Config(
        vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0, resid_pdrop=0.3
    )
    rows = [{"input_ids": row, "labels": row} for row in SENTENCES]
    return Trainer(model=GPT2LMHeadModel(config), args=TrainingArguments(**settings), train_dataset=rows)


def train_tiny(
    output: Path, *, config: TrainingConfig = CONFIG, build: Any = build_tiny_trainer, progress: Any = None
) -> TrainingResult:
    """Train the model."""

    def save(trainer: Any, folder: Path) -> None:
        trainer.model.save_pretrained(str(folder))

    return fit(output, config, build, save, {"kind": "tiny"}, progress)


def same_weights(one: Path, other: Path) -> bool:
    """Whether two models have the same weights, to the last bit."""
    weights, others = (load_file(folder / "model.safetensors") for folder in (one, other))
    return weights.keys() == others.keys() and all((weights[name] == others[name]).all() for name in weights)


def _kill_at_13(done: int, total: int, text: str) -> None:
    if done == 13:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    train_tiny(Path(sys.argv[1]), progress=_kill_at_13)
