"""Train a causal or sequence-to-sequence model on token ids: prompts that are given, and what the model shall write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from knowgap.compiling.training.config import TrainingConfig
from knowgap.compiling.training.fit import Job
from knowgap.compiling.training.lora import add_lora, merge_lora

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
    load: Callable[[], tuple[Any, Any]],
    *,
    config: TrainingConfig,
    facts: Mapping[str, Any],
    lora_settings: Callable[[Any, Any], dict[str, Any]] | None = None,
    write_more: Callable[[Path], object] | None = None,
) -> Job:
    """The training of a language model of Transformers.

    Args:
        rows: the examples.
        output: the folder of the trained model and its tokenizer.
        load: loads the model to start from, and its tokenizer.
        config: the settings.
        facts: see `Job`.
        lora_settings: further settings of LoRA, for a model and its tokenizer.
        write_more: writes further files into the folder.
    """

    def build(arguments: Any) -> Any:
        from transformers import Trainer

        model, tokenizer = load()
        more = lora_settings(model, tokenizer) if lora_settings and config.lora_rank is not None else {}
        model = add_lora(model.train(), config.lora_rank, **more)
        examples: Any = list(rows)  # a list is all that the trainer needs
        return Trainer(
            model=model, args=arguments, train_dataset=examples, data_collator=_pad, processing_class=tokenizer
        )

    def save(trainer: Any, folder: Path) -> None:
        merge_lora(trainer.accelerator.unwrap_model(trainer.model)).save_pretrained(str(folder))
        trainer.processing_class.save_pretrained(str(folder))
        if write_more is not None:
            write_more(folder)

    return Job(
        output=Path(output),
        config=config,
        build=build,
        examples=len(rows),
        facts=facts,
        save=save,
        more={"remove_unused_columns": False},
    )


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
