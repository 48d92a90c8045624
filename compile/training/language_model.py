"""Train a causal or sequence-to-sequence model on the token ids of prompts and of the replies that it is to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from knowgap.compiling.training.config import LanguageModelConfig
from knowgap.compiling.training.fit import Job
from knowgap.lms.local.loading import LocalModel, load_model, read_config
from knowgap.storage.files import folder_digest

IGNORED = -100
"""The label of a token that the loss leaves out."""

Row = dict[str, list[int]]
"""An example: `input_ids`, and `labels`, which are `IGNORED` for tokens that are left out of the loss."""


def conversation_row(local: LocalModel, conversation: Sequence[Mapping[str, str]]) -> Row:
    """Encode a conversation; the loss is on its last message and the token that ends a reply."""
    *turns, reply = conversation
    prompt = local.chat_ids(turns)
    written = list(local.tokenizer(reply["content"], add_special_tokens=False).input_ids) + list(local.end_ids[:1])
    if local.is_seq2seq:
        return {"input_ids": prompt, "labels": written}
    return {"input_ids": [*prompt, *written], "labels": [IGNORED] * len(prompt) + written}


def language_model_job(
    rows: Sequence[Row],
    output: str | Path,
    base: str,
    *,
    config: LanguageModelConfig,
    facts: Mapping[str, Any],
    prepare: Callable[[Any, Any], dict[str, Any]] | None = None,
) -> Job:
    """The job that trains a language model of Transformers and writes it in the dtype of its base checkpoint.

    Examples that are longer than `max_length` are left out, since what is cut off is what is to be learnt. The base is
    added to the facts; see `Job`. `prepare` changes the model and its tokenizer before the training, and returns
    further settings of LoRA.
    """
    rows = [row for row in rows if len(row["input_ids"]) <= config.max_length]

    def build(settings: dict[str, Any]) -> Any:
        from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments

        local = load_model(base, "cpu", checkpoint_dtype(base) if config.lora_rank is not None else "float32")
        lora = prepare(local.model, local.tokenizer) if prepare is not None else {}
        model, tokenizer = local.model.train(), local.tokenizer
        if config.gradient_checkpointing and model.supports_gradient_checkpointing:
            model.gradient_checkpointing_enable()
        if config.lora_rank is not None:
            from peft import LoraConfig, get_peft_model

            rank = config.lora_rank
            model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", **lora))
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        arguments = TrainingArguments(**settings, remove_unused_columns=False)
        examples: Any = rows  # a list is all that the trainer needs
        collate = DataCollatorForSeq2Seq(tokenizer, padding=True, label_pad_token_id=IGNORED)
        return Trainer(
            model=model, args=arguments, train_dataset=examples, data_collator=collate, processing_class=tokenizer
        )

    def save(trainer: Any, folder: Path) -> None:
        import torch

        trained = trainer.accelerator.unwrap_model(trainer.model)
        if config.lora_rank is not None:
            trained = trained.merge_and_unload()
        trained.to(getattr(torch, checkpoint_dtype(base))).save_pretrained(str(folder))
        trainer.processing_class.save_pretrained(str(folder))

    facts = {**base_facts(base), **facts}
    return Job(output=Path(output), config=config, build=build, examples=len(rows), facts=facts, save=save)


def base_facts(base: str) -> dict[str, str]:
    """What a training run records of the model it starts from, a folder or a name on the hub."""
    return {"base": base, **({"base_digest": folder_digest(Path(base))} if Path(base).is_dir() else {})}


def checkpoint_dtype(base: str) -> str:
    """The dtype of a checkpoint's weights, by its configuration; `float32` if that names no other."""
    dtype = str(getattr(read_config(base), "dtype", None)).removeprefix("torch.")
    return dtype if dtype in ("bfloat16", "float16") else "float32"
