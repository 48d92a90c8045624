"""The settings of a training: those of every model, and those of each kind of model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field, ValidationError
from typing_extensions import Self

from knowgap.errors import UnknownName, UsageError, ValueOutOfBounds

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Epochs = Annotated[float, Field(gt=0, le=10_000)]
Rate = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Split = Literal["dev", "test", "none"]


class TrainingConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """How a model is trained; every kind of model has its own defaults.

    Attributes:
        epochs: passes over the examples, above 0; may be a part of one.
        learning_rate: the peak learning rate, above 0 and at most 1; the rate rises from 0 during the warm-up, and then
            falls to 0.
        batch_size: the examples that a process computes at once.
        gradient_accumulation: a step of the optimizer takes `batch_size` times this many examples of each process.
        warmup_ratio: the share of the steps in which the learning rate rises, 0 to 1.
        max_length: the most tokens of one example.
        seed: the seed of the order of examples, of new weights and of dropout.

    Raises:
        ValueOutOfBounds: a value is outside of its bounds.
        UnknownName: there is no such setting.
    """

    paper_base: ClassVar[str] = ""
    """The model that the method's paper starts from, by its name on the hub; empty if it trains none."""
    paper: ClassVar[Mapping[str, Any]] = {}
    """The paper's values of settings whose default is another."""

    epochs: Epochs = 1.0
    learning_rate: Rate = 2e-5
    batch_size: Count = 16
    gradient_accumulation: Count = 1
    warmup_ratio: Share = 0.1
    max_length: Count = 512
    seed: int = Field(default=0, ge=0, lt=2**32)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            [first, *_] = error.errors()
            name = str(first["loc"][0])
            if first["type"] == "extra_forbidden":
                raise UnknownName.among("training setting", name, type(self).model_fields) from None
            reason = first["msg"].replace("Input should be", "must be")
            raise ValueOutOfBounds(f"{name} = {first['input']!r}: {reason}") from None

    @classmethod
    def as_in_paper(cls, **values: Any) -> Self:
        """The settings of the method's paper, with some changed.

        Raises:
            UsageError: the paper trains no such model.
        """
        if not cls.paper_base:
            raise UsageError("--preset paper applies only to rq-rag and ra-isf, whose papers train a model")
        return cls(**{**cls.paper, **values})

    def steps(self, examples: int) -> int:
        """How many steps of the optimizer a training on this many examples takes in one process."""
        batches = math.ceil(examples / self.batch_size)
        return math.ceil(self.epochs * math.ceil(batches / self.gradient_accumulation))


class RerankerConfig(TrainingConfig, frozen=True):
    """How a reranker is trained.

    Attributes:
        negatives: wrong passages for each gold one.
        depth: passages of the index that are reranked when the model is measured, and among which wrong ones are found.
        measured_on: the split on whose questions the model is measured; `none` leaves that out.
    """

    batch_size: Count = 32
    max_length: Count = 256
    negatives: Count = 4
    depth: Count = 50
    measured_on: Split = "test"


class LanguageModelConfig(TrainingConfig, frozen=True):
    """How a language model is trained; longer examples than `max_length` are left out.

    Attributes:
        lora_rank: train matrices of this rank beside the frozen weights (LoRA, arXiv:2106.09685), and add them to the
            weights at the end; None trains the weights themselves. The default learning rate is ten times higher then.
        gradient_checkpointing: keep only the input of each layer, and recompute the layer for its gradient, which takes
            less memory and a third more time.
    """

    lora_rank: int | None = Field(default=None, ge=1, le=4096)
    gradient_checkpointing: bool = False

    def __init__(self, **values: Any) -> None:
        if values.get("lora_rank") is not None:
            rate = type(self).model_fields["learning_rate"].default
            values = {"learning_rate": max(rate, 2e-4), **values}
        super().__init__(**values)


class SubModelConfig(LanguageModelConfig, frozen=True):
    """How RA-ISF's sub-models are labelled and trained.

    The learning rate is the paper's (section 4.5), which gives no other settings.

    Attributes:
        top_k: passages that are retrieved and labelled for each question.
        held_out: the share of the questions that are held out, for the models to be measured on.
    """

    paper_base: ClassVar[str] = "meta-llama/Llama-2-7b-hf"

    epochs: Epochs = 3.0
    learning_rate: Rate = 5e-4
    max_length: Count = 1024
    top_k: Count = 5
    held_out: float = Field(default=0.2, ge=0.01, le=0.9)


class GeneratorConfig(LanguageModelConfig, frozen=True):
    """How RQ-RAG's generator is trained: the paper's settings (appendix B.1), and those of its transcripts.

    A step has 32 transcripts in one process, as in the released script.

    Attributes:
        top_k: passages per query (appendix B.4: 3).
        max_queries: the most queries of a transcript.
        drop_unfound: leave out a question of several steps whose gold passages were not found (appendix B.4).
        drop_answers: leave out a new answer that the passages do not support, or that is none of the known ones; the
            paper keeps all (section 4.4), so that answers are not tied to the known one.
        mask_evidence: leave the retrieved passages out of the loss.
        depth: the depth of the tree when the model is measured.
        measured_on: the split on whose questions the model is measured; `none` leaves that out.
    """

    paper_base: ClassVar[str] = "meta-llama/Llama-2-7b-hf"
    paper: ClassVar[Mapping[str, Any]] = {"drop_answers": False}

    batch_size: Count = 1
    gradient_accumulation: Count = 32
    warmup_ratio: Share = 0.03
    max_length: Count = 4096
    gradient_checkpointing: bool = True
    top_k: int = Field(default=3, ge=1, le=20)
    max_queries: int = Field(default=4, ge=1, le=8)
    drop_unfound: bool = True
    drop_answers: bool = True
    mask_evidence: bool = True
    depth: int = Field(default=2, ge=0, le=5)
    measured_on: Split = "test"
