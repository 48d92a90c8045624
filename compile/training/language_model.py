"""Train a causal or sequence-to-sequence model on the token ids of prompts and of the replies that it is to write."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from knowgap.compiling.training.config import LanguageModelConfig
from knowgap.compiling.training.cross_encoder import base_facts
from knowgap.compiling.training.fit import Job, TrainingPlan
from knowgap.compiling.training.lora import add_lora, merge_lora
from knowgap.compiling.training.memory import memory_needs, tokens_per_second
from knowgap.errors import MissingDependency
from knowgap.lms.local.batches import pad_rows
from knowgap.lms.local.loading import LocalModel, load_model, read_config
from knowgap.retrieval.device import bfloat16_on
from knowgap.storage.processes import process_count

IGNORED = -100
"""The label of a token that the loss leaves out."""

Row = dict[str, list[int]]
"""An example: `input_ids`, and `labels`, which are `IGNORED` for tokens that are left out of the loss."""


def prompt_and_reply(prompt: Sequence[int], reply: Sequence[int], *, seq2seq: bool) -> Row:
    """An example whose loss is on the reply alone."""
    if seq2seq:
        return {"input_ids": [*prompt], "labels": [*reply]}
    return {"input_ids": [*prompt, *reply], "labels": [IGNORED] * len(prompt) + [*reply]}


def conversation_row(local: LocalModel, conversation: Sequence[Mapping[str, str]]) -> Row:
    """Encode a conversation; the loss is on its last message and the token that ends a reply."""
    *turns, reply = conversation
    completion = list(local.tokenizer(reply["content"], add_special_tokens=False).input_ids) + list(local.end_ids[:1])
    return prompt_and_reply(local.chat_ids(turns), completion, seq2seq=local.is_seq2seq)


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

    The base is added to the facts; see `Job`. `prepare` changes the model and its tokenizer before the training, and
    returns further settings of LoRA.
    """
    # Rows without labels pad the last step, so that it can be divided among any number of processes.
    empty: list[Row] = [{"input_ids": [0], "labels": [IGNORED]}] * (-len(rows) % config.step_size)

    def load(dtype: str, **more: Any) -> tuple[LocalModel, Any]:
        """Load the base; return it, and the model that is trained: prepared, and with LoRA matrices."""
        local = load_model(base, "cpu", dtype, **more)
        settings = prepare(local.model, local.tokenizer) if prepare is not None else {}
        return local, add_lora(local.model.train(), config.lora_rank, **settings)

    def build(settings: dict[str, Any]) -> Any:
        from transformers import TrainingArguments

        from knowgap.compiling.training.transformers_trainer import LanguageModelTrainer

        device = "cpu" if settings["use_cpu"] else "cuda"
        half = bfloat16_on(device) and checkpoint_dtype(base) != "float32" and not (config.fsdp and device == "cpu")
        dtype = config.dtype if config.lora_rank is None or config.fsdp or not half else "bfloat16"
        local, model = load(dtype, **(_four_bits(device, half) if config.load_in_4bit else {}))
        checkpointing = config.gradient_checkpointing and local.model.supports_gradient_checkpointing
        if config.fsdp:
            sharded = {"version": 2, "state_dict_type": "SHARDED_STATE_DICT", "activation_checkpointing": checkpointing}
            settings |= {"fsdp": True, "fsdp_config": sharded}
        else:
            settings |= {"gradient_checkpointing": checkpointing}
        if config.lora_rank is not None and checkpointing:
            local.model.enable_input_require_grads()
        settings["bf16"] = (settings["bf16"] or half) and config.dtype == "float32"
        examples: Any = [*rows, *empty]  # a list is all that the trainer needs
        return LanguageModelTrainer(
            model=model,
            args=TrainingArguments(**settings, remove_unused_columns=False),
            train_dataset=examples,
            data_collator=_pad,
            processing_class=local.tokenizer,
        )

    def save(trainer: Any, folder: Path) -> None:
        import torch

        dtype = checkpoint_dtype(base)
        trained, weights = trainer.accelerator.unwrap_model(trainer.model), trainer.weights
        if config.lora_rank is not None:
            trained = merge_lora(load(dtype)[1], weights if weights is not None else trained.state_dict())
            weights = None
        elif weights is not None:
            weights = {name: weight.to(getattr(torch, dtype)) for name, weight in weights.items()}
        else:
            trained = trained.to(getattr(torch, dtype))
        trained.save_pretrained(str(folder), state_dict=weights)
        trainer.processing_class.save_pretrained(str(folder))

    facts = {**base_facts(base), **facts}
    return Job(output=Path(output), config=config, build=build, examples=len(rows), facts=facts, save=save)


def plan_language_model(
    base: str,
    config: LanguageModelConfig,
    *,
    examples: int,
    tokens: float,
    teacher_calls: int = 0,
    gpus: tuple[int, float] | None = None,
    trains_head: bool = False,
) -> TrainingPlan:
    """Estimate what a training takes from the configuration of its model, without loading weights.

    `tokens` is the mean length of an example. `gpus` says how many GPUs train, and the GB of each; by default, those of
    this machine do. See `memory_needs` for `trains_head`.

    Raises:
        LanguageModelError: the configuration cannot be read.
        UsageError: the memory of such a model cannot be counted.
    """
    import torch

    if gpus is None and torch.cuda.is_available():
        gpus = torch.cuda.device_count(), torch.cuda.get_device_properties(0).total_memory / 1e9
    processes = gpus[0] if gpus else process_count()
    needs = memory_needs(base, config, processes=processes, cuda=gpus is not None, trains_head=trains_head)
    lora, checkpointing = config.lora_rank is not None, config.gradient_checkpointing
    speed = tokens_per_second(base, lora=lora, checkpointing=checkpointing)
    hours = config.epochs * examples * tokens / (speed * (gpus[0] if gpus else 1)) / 3600
    return TrainingPlan(examples, config.steps(examples), hours, teacher_calls, needs, gpus, speed)


def checkpoint_dtype(base: str) -> str:
    """The dtype of a checkpoint's weights, by its configuration; `float32` if that names no other."""
    dtype = str(getattr(read_config(base), "dtype", None)).removeprefix("torch.")
    return dtype if dtype in ("bfloat16", "float16") else "float32"


def _four_bits(device: str, half: bool) -> dict[str, Any]:
    """Arguments of `from_pretrained` that quantize weights to 4 bits, as QLoRA does."""
    import torch
    from transformers import BitsAndBytesConfig

    if find_spec("bitsandbytes") is None:
        raise MissingDependency("load_in_4bit: bitsandbytes not installed: pip install 'knowgap[qlora]'")
    quantized = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16 if half else torch.float32,
    )
    place = device if device == "cpu" else int(os.environ.get("LOCAL_RANK", "0"))
    return {"quantization_config": quantized, "device_map": {"": place}}


def _pad(rows: Sequence[Row]) -> dict[str, Any]:
    """A batch of examples, padded on the right."""
    ids, mask = pad_rows([row["input_ids"] for row in rows])
    labels, _ = pad_rows([row["labels"] for row in rows], IGNORED)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}
