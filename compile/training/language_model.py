"""Train a causal or sequence-to-sequence model on token ids: prompts that are given, and what the model shall write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from knowgap.compiling.training.config import TrainingConfig
from knowgap.compiling.training.cross_encoder import base_facts
from knowgap.compiling.training.fit import Job
from knowgap.compiling.training.lora import add_lora, merge_lora
from knowgap.lms.local.loading import load_model

IGNORED = -100
"""The label of a token that the loss leaves out."""

Row = dict[str, list[int]]
"""An example: `input_ids` and `labels`, which are `IGNORED` where the model does not write itself."""


def prompt_and_reply(prompt: Sequence[int], reply: Sequence[int], *, seq2seq: bool) -> Row:
    """An example whose loss is on the reply alone."""
    if seq2seq:
        return {"input_ids": [*prompt], "labels": [*reply]}
    return {"input_ids": [*prompt, *reply], "labels": [IGNORED] * len(prompt) + [*reply]}


def language_model_job(
    rows: Sequence[Row],
    output: str | Path,
    base: str,
    *,
    config: TrainingConfig,
    facts: Mapping[str, Any],
    prepare: Callable[[Any, Any], dict[str, Any]] | None = None,
) -> Job:
    """The training of a language model of Transformers.

    Args:
        rows: the examples.
        output: the folder of the trained model and its tokenizer.
        base: the model to start from, by folder or hub name.
        config: the settings.
        facts: see `Job`; the base is added.
        prepare: changes the model and its tokenizer before the training, and returns further settings of LoRA.
    """

    def build(settings: dict[str, Any]) -> Any:
        from transformers import Trainer, TrainingArguments

        local = load_model(base, "cpu", "float32")
        more = prepare(local.model, local.tokenizer) if prepare is not None else {}
        examples: Any = list(rows)  # a list is all that the trainer needs
        return Trainer(
            model=add_lora(local.model.train(), config.lora_rank, **more),
            args=TrainingArguments(**settings, remove_unused_columns=False),
            train_dataset=examples,
            data_collator=_pad,
            processing_class=local.tokenizer,
        )

    def save(trainer: Any, folder: Path) -> None:
        merge_lora(trainer.accelerator.unwrap_model(trainer.model)).save_pretrained(str(folder))
        trainer.processing_class.save_pretrained(str(folder))

    facts = {**base_facts(base), **facts}
    return Job(output=Path(output), config=config, build=build, examples=len(rows), facts=facts, save=save)


def _pad(rows: Sequence[Row]) -> dict[str, Any]:
    """A batch of examples, padded on the right."""
    import torch

    def padded(columns: list[list[int]], value: int) -> Any:
        width = max(map(len, columns))
        return torch.tensor([[*column, *[value] * (width - len(column))] for column in columns])

    return {
        "input_ids": padded([row["input_ids"] for row in rows], 0),
        "attention_mask": padded([[1] * len(row["input_ids"]) for row in rows], 0),
        "labels": padded([row["labels"] for row in rows], IGNORED),
    }
