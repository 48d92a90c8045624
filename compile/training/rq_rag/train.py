"""Train RQ-RAG's generator: a causal model that learns to write transcripts.

Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", section 2.2, equation 2, appendix B.1.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowgap.compiling.training.config import TrainingConfig
from knowgap.compiling.training.lora import add_lora, merge_lora
from knowgap.compiling.training.reranker import base_facts
from knowgap.compiling.training.rq_rag.examples import IGNORED, encode_records
from knowgap.compiling.training.rq_rag.records import TranscriptRecord
from knowgap.compiling.training.trainer import TrainingResult, measure_step, train
from knowgap.errors import LanguageModelError, shorten
from knowgap.lms.local.loading import require_transformers
from knowgap.lms.rq_rag.layout import CONTROL_TOKENS, TranscriptLayout, add_control_tokens
from knowgap.storage.files import json_digest
from knowgap.storage.progress import Progress

if TYPE_CHECKING:
    from transformers import Trainer

__all__ = ["GENERATOR_CONFIG", "GeneratorTraining"]

GENERATOR_CONFIG = TrainingConfig(
    epochs=1.0, learning_rate=2e-5, batch_size=1, gradient_accumulation=32, warmup_ratio=0.03, max_length=4096
)
"""The paper's settings; 32 transcripts to a step are the released script's, over all of its GPUs."""


class GeneratorTraining:
    """A causal model of Transformers that is trained on transcripts, with the control tokens added to its vocabulary.

    With LoRA, the embeddings of the control tokens, which are new, are trained as well; so is the last layer where it
    does not share them.

    Args:
        records: transcripts; those that were dropped are left out.
        base: a causal model, by folder or hub name.
        config: the settings; a transcript of more than `max_length` tokens is left out.
        mask_evidence: learn what the model writes itself alone, and not the retrieved passages.

    Attributes:
        examples: how many transcripts are trained on.
        too_long: ids of the questions whose transcripts are too long.

    Raises:
        LanguageModelError: the base cannot be loaded.
        MissingDependency: torch or Transformers is not installed.
    """

    def __init__(
        self,
        records: Sequence[TranscriptRecord],
        base: str,
        *,
        config: TrainingConfig = GENERATOR_CONFIG,
        mask_evidence: bool = True,
    ) -> None:
        self._base, self._config, self._mask = base, config, mask_evidence
        self._tokenizer, model = self._load()
        kept = [record for record in records if not record.dropped]
        encoded = encode_records(
            TranscriptLayout(self._tokenizer), kept, max_length=config.max_length, mask_evidence=mask_evidence
        )
        del model
        self._examples, self.too_long = encoded
        self.examples = len(self._examples)

    def run(self, output: str | Path, *, overwrite: bool = False, progress: Progress | None = None) -> TrainingResult:
        """Train the generator, or continue to; `--generator` and `TranscriptGenerator` take the result."""
        made_from = {
            "kind": "rq-rag",
            **base_facts(self._base),
            "data": json_digest(self._examples),
            "mask_evidence": self._mask,
        }
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Setting `save_embedding_layers`")  # the control tokens are new
            return train(
                output,
                self._config,
                self._build,
                examples=self.examples,
                made_from=made_from,
                save=self._save,
                overwrite=overwrite,
                progress=progress,
                remove_unused_columns=False,
            )

    def seconds_per_step(self) -> float:
        """Measure a few steps."""
        return measure_step(self._config, self._build, remove_unused_columns=False)

    def save_untrained(self, folder: str | Path) -> None:
        """Write the model as it is before the training: the base with new control tokens."""
        from transformers import set_seed

        set_seed(self._config.seed)
        tokenizer, model = self._load()
        model.save_pretrained(str(folder))
        tokenizer.save_pretrained(str(folder))

    def _build(self, arguments: Any) -> Trainer:
        import torch
        from transformers import Trainer

        _, model = self._load()
        if torch.cuda.is_available():  # memory of a GPU is short where transcripts are long
            model.gradient_checkpointing_enable()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PEFT asks for a setting by its former name
            model = add_lora(model, self._config.lora_rank, **_new_tokens(model, self._tokenizer))
        rows: Any = self._examples  # a list is all that the trainer needs
        return Trainer(model=model, args=arguments, train_dataset=rows, data_collator=_pad)

    def _load(self) -> tuple[Any, Any]:
        """The base with its tokenizer, both with the control tokens."""
        require_transformers()
        from transformers import AutoModelForCausalLM, AutoTokenizer

        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(self._base)
            model: Any = AutoModelForCausalLM.from_pretrained(self._base, dtype="float32")
        except (OSError, ValueError) as error:
            reason = shorten(error, 200)
            raise LanguageModelError(f"the base model {self._base!r} cannot be loaded: {reason}") from error
        add_control_tokens(tokenizer, model)
        return tokenizer, model

    def _save(self, trainer: Any, folder: Path) -> None:
        model = trainer.accelerator.unwrap_model(trainer.model)
        merge_lora(model).save_pretrained(str(folder))
        self._tokenizer.save_pretrained(str(folder))


def _new_tokens(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Settings of LoRA that let the control tokens be learnt."""
    names = {part: name.rpartition(".")[2] for name, part in model.named_modules()}
    given, read = model.get_input_embeddings(), model.get_output_embeddings()
    settings: dict[str, Any] = {
        "trainable_token_indices": {names[given]: tokenizer.convert_tokens_to_ids(list(CONTROL_TOKENS))}
    }
    if read is not None and read.weight is not given.weight:
        settings["modules_to_save"] = [names[read]]
    return settings


def _pad(examples: list[dict[str, list[int]]]) -> dict[str, Any]:
    """A batch of examples, padded on the right."""
    import torch

    width = max(len(example["input_ids"]) for example in examples)

    def padded(rows: list[list[int]], value: int) -> Any:
        return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])

    return {
        "input_ids": padded([example["input_ids"] for example in examples], 0),
        "attention_mask": padded([[1] * len(example["input_ids"]) for example in examples], 0),
        "labels": padded([example["labels"] for example in examples], IGNORED),
    }
