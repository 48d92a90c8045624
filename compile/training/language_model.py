"""Train a causal or sequence-to-sequence model on the token ids of prompts and of the replies that it is to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from knowgap.compiling.training.config import Job, LanguageModelConfig
from knowgap.compiling.training.fit import TrainingResult, base_facts, fit
from knowgap.errors import UsageError
from knowgap.lms.local import LocalModel
from knowgap.storage.files import json_digest

IGNORED = -100
"""The label of a token that the loss leaves out."""

Row = dict[str, list[int]]
"""An example: `input_ids`, and `labels`, which are `IGNORED` for tokens that are left out of the loss."""

Conversation = Sequence[Mapping[str, str]]
"""Messages, each with its `role` and its `content`; the last one is what the model is to write."""


def conversation_row(local: LocalModel, conversation: Conversation) -> Row:
    """Encode a conversation; the loss is on its last message and the token that ends a reply."""
    *turns, reply = conversation
    prompt = local.chat_ids(turns)
    written = list(local.tokenizer(reply["content"], add_special_tokens=False).input_ids) + list(local.end_ids[:1])
    if local.is_seq2seq:
        return {"input_ids": prompt, "labels": written}
    return {"input_ids": [*prompt, *written], "labels": [IGNORED] * len(prompt) + written}


def train_language_model(
    job: Job[LanguageModelConfig],
    conversations: Sequence[Conversation],
    facts: Mapping[str, Any],
    *,
    encode: Callable[[LocalModel, Conversation], Row] = conversation_row,
    prepare: Callable[[LocalModel], dict[str, Any]] = lambda local: {},
) -> TrainingResult:
    """Train a language model of Transformers, and write it in the dtype of its base.

    Examples that are longer than `max_length` are left out, since what is cut off is what is to be learnt.

    Args:
        job: the model to start from, the settings, and the folder of the finished model.
        conversations: what the model learns to write.
        facts: see `fit`; the base and a digest of the conversations are added.
        encode: makes an example of a conversation.
        prepare: changes the model and its tokenizer before that, and returns further settings of LoRA.
    """
    config = job.config
    dtype: Any = None  # that of the base

    def build(settings: dict[str, Any]) -> Any:
        from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments

        nonlocal dtype
        local = LocalModel(job.base, "cpu", "auto")
        dtype = local.model.dtype
        lora = prepare(local)
        every = [encode(local, conversation) for conversation in conversations]
        examples: Any = [row for row in every if len(row["input_ids"]) <= config.max_length]
        if not examples:
            raise UsageError(f"{job.output}: there is nothing to train on, or nothing that fits in max_length")
        model, tokenizer = local.model.train(), local.tokenizer
        if config.gradient_checkpointing and model.supports_gradient_checkpointing:
            model.gradient_checkpointing_enable()
        if config.lora_rank is None:
            model = model.float()
        else:
            from peft import LoraConfig, get_peft_model

            rank = config.lora_rank
            model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", **lora))
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        return Trainer(
            model=model,
            args=TrainingArguments(**settings, remove_unused_columns=False),
            train_dataset=examples,  # a list is all that the trainer needs
            data_collator=DataCollatorForSeq2Seq(tokenizer, padding=True, label_pad_token_id=IGNORED),
            processing_class=tokenizer,
        )

    def save(trainer: Any, folder: Path) -> None:
        trained = trainer.accelerator.unwrap_model(trainer.model)
        if config.lora_rank is not None:
            trained = trained.merge_and_unload()
        trained.to(dtype).save_pretrained(str(folder))
        trainer.processing_class.save_pretrained(str(folder))

    made_from = {**base_facts(job.base), "data": json_digest(conversations), **facts}
    return fit(job.output, config, build, save, made_from, job.run.progress)
