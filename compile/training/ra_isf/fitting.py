"""Train a sub-model on labelled examples (equation 1: cross-entropy of the label given the input)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from knowgap.compiling.evaluation.provenance import digest
from knowgap.compiling.training.config import TrainingConfig
from knowgap.compiling.training.embedded.cross_encoder import base_folder, load_base
from knowgap.compiling.training.lora import add_lora, merge_lora
from knowgap.compiling.training.ra_isf.labelling import LabelledExample
from knowgap.compiling.training.trainer import Build, TrainingResult, measure_step, train
from knowgap.errors import CheckpointError, UsageError, shorten
from knowgap.lms.local.loading import load_model
from knowgap.lms.ra_isf.card import Kind, SubModelCard, Task
from knowgap.lms.ra_isf.language_model import fit_prompt, target_ids
from knowgap.lms.ra_isf.sub_models import join_questions
from knowgap.storage.progress import Progress

if TYPE_CHECKING:
    from transformers import Trainer, TrainingArguments

__all__ = ["base_card", "default_config", "measure_sub_model_step", "train_sub_model"]


def base_card(task: Task, base: str, config: TrainingConfig) -> SubModelCard:
    """What becomes of a model that is trained for a sub-module.

    A model that generates text is trained to say labels or sub-questions; any other becomes a cross-encoder.

    Raises:
        CheckpointError: there is no such model.
        UsageError: it cannot decompose, or reads fewer tokens than the settings say.
    """
    from transformers import AutoConfig

    try:
        found = AutoConfig.from_pretrained(base_folder(base))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{base}: cannot be loaded ({shorten(error, 200)})") from error
    architecture = next(iter(found.architectures or [""]))
    kind: Kind = "cross_encoder"
    if found.is_encoder_decoder:
        kind = "seq2seq"
    elif architecture.endswith(("ForCausalLM", "LMHeadModel")):
        kind = "causal"
    if kind == "cross_encoder" and task == "decompose":
        raise UsageError(f"{base}: writes no text; a decomposition model starts from a T5 or a causal model")
    window = getattr(found.get_text_config(), "max_position_embeddings", None)
    if window is not None and config.max_length > window:
        raise UsageError(f"max_length = {config.max_length}: {base} reads at most {window} tokens")
    return SubModelCard.make(
        task, kind, base=Path(base).name if Path(base).is_dir() else base, max_tokens=config.max_length
    )


def default_config(kind: Kind) -> TrainingConfig:
    """The settings of a run unless others are given.

    The paper's learning rate, 5e-4 (section 4.5), for models that generate; it says nothing else. A cross-encoder,
    which it does not have, takes 1e-4.
    """
    config = TrainingConfig(epochs=3, learning_rate=5e-4, batch_size=16)
    return replace(config, learning_rate=1e-4) if kind == "cross_encoder" else config


def train_sub_model(
    card: SubModelCard,
    base: str,
    examples: Sequence[LabelledExample],
    output: str | Path,
    config: TrainingConfig,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TrainingResult:
    """Train a sub-model, and write it to a folder that `load_sub_model` reads. A run that was killed continues.

    Args:
        card: of `base_card`.
        base: the model to start from: a folder, a hub name, or `embedded`, the embedded reader's encoder.
        examples: to learn from.
        output: the folder.
        config: the settings.
        overwrite: replace another model in the folder, or discard an interrupted run.
        progress: is called with (steps done, steps in all, text).

    Raises:
        UsageError: there is nothing to learn from, or only one label; see also `trainer.train`.
        CheckpointError: the base cannot be loaded.
    """
    if card.task != "decompose" and len({bool(example.label) for example in examples}) < 2:
        raise UsageError(f"all {len(examples)} examples of {card.task} have the same label: there is nothing to learn")
    data = digest([[e.question, e.passage, e.label] for e in examples])
    made_from = {"sub_model": card.task, "kind": card.kind, "base": card.base, "prompt": card.prompt, "data": data}

    def save(trainer: Trainer, folder: Path) -> None:
        if card.kind == "cross_encoder":
            encoder: Any = trainer.model
            encoder.model.save_pretrained(folder)
            encoder.tokenizer.save_pretrained(folder)
        else:
            merge_lora(trainer.model).save_pretrained(folder)
            cast("Any", trainer.processing_class).save_pretrained(folder)
        card.write(folder)

    return train(
        output, config, _build(card, base, examples, config), examples=len(examples), made_from=made_from, save=save,
        arguments=_arguments_class(card), overwrite=overwrite, progress=progress,
    )  # fmt: skip


def measure_sub_model_step(
    card: SubModelCard, base: str, examples: Sequence[LabelledExample], config: TrainingConfig
) -> float:
    """Seconds that a step of the training takes, measured on a few of the examples."""
    shown = [*examples] * (1 + 4 * config.batch_size // max(1, len(examples)))
    return measure_step(config, _build(card, base, shown, config), arguments=_arguments_class(card))


def _arguments_class(card: SubModelCard) -> type[TrainingArguments] | None:
    if card.kind != "cross_encoder":
        return None
    from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments

    return CrossEncoderTrainingArguments


def _build(card: SubModelCard, base: str, examples: Sequence[LabelledExample], config: TrainingConfig) -> Build:
    if card.kind == "cross_encoder":
        return lambda arguments: _cross_encoder_trainer(arguments, card, base, examples, config)
    return lambda arguments: _language_model_trainer(arguments, card, base, examples, config)


def _language_model_trainer(
    arguments: TrainingArguments,
    card: SubModelCard,
    base: str,
    examples: Sequence[LabelledExample],
    config: TrainingConfig,
) -> Trainer:
    """A trainer whose loss is on the label or the sub-questions alone."""
    from transformers import DataCollatorForSeq2Seq, Trainer

    local = load_model(base_folder(base), dtype="float32")
    tokenizer, model = local.tokenizer, add_lora(local.model.train(), config.lora_rank)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    instruction = len(tokenizer(card.prompt.format(question="", passage=""))["input_ids"])
    if 2 * instruction > card.max_tokens:
        raise UsageError(
            f"max_length = {card.max_tokens}: the instruction alone takes {instruction} tokens of {card.base}; "
            f"questions would be cut off: set at least {2 * instruction}"
        )
    return Trainer(
        model=model,
        args=arguments,
        train_dataset=cast("Any", [encode_example(tokenizer, card, example) for example in examples]),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
    )


def encode_example(tokenizer: Any, card: SubModelCard, example: LabelledExample) -> dict[str, list[int]]:
    """The token ids of prompt and target, as a causal or a sequence-to-sequence model learns from them."""
    text = fit_prompt(tokenizer, card, example.question, example.passage)
    prompt = tokenizer(text, truncation=True, max_length=card.max_tokens)["input_ids"]
    if isinstance(example.label, list):
        said = join_questions(example.label)
    else:
        said = (card.labels or ("", ""))[int(example.label)]
    target = [*target_ids(tokenizer, card, said)[: card.max_tokens], tokenizer.eos_token_id]
    if card.kind == "seq2seq":
        return {"input_ids": prompt, "attention_mask": [1] * len(prompt), "labels": target}
    ids = [*prompt, *target]
    return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": [-100] * len(prompt) + target}


def _cross_encoder_trainer(
    arguments: TrainingArguments,
    card: SubModelCard,
    base: str,
    examples: Sequence[LabelledExample],
    config: TrainingConfig,
) -> Trainer:
    from datasets import Dataset
    from sentence_transformers.cross_encoder import CrossEncoderTrainer
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

    if config.lora_rank is not None:
        raise UsageError("lora_rank: a cross-encoder is trained whole")
    encoder = load_base(base, card.max_tokens)
    columns = {
        "question": [example.question for example in examples],
        "passage": [example.passage for example in examples],
        "label": [float(example.label is True) for example in examples],
    }
    return CrossEncoderTrainer(
        model=encoder,
        args=cast("Any", arguments),
        train_dataset=Dataset.from_dict(columns),
        loss=BinaryCrossEntropyLoss(encoder),
    )
