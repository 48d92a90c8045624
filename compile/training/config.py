"""The settings of a training: those of every model, and those of each kind of model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field, ValidationError
from typing_extensions import Self

from knowgap.errors import UnknownName, UsageError, ValueOutOfBounds

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Epochs = Annotated[float, Field(gt=0, le=10_000)]
Rate = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, kw_only=True)
class PaperRun:
    """A training as the paper of its method describes it.

    Attributes:
        base: the model that it starts from, by its name on the hub.
        examples: how many examples it trains on.
        data: what the examples are made of, and what the paper does not say.
        settings: the paper's values by the names of the settings; none if the defaults are the paper's.
        gpus: how many GPUs, and the GB of each; None if the paper does not say.
        questions: how many questions are drawn at random from each data set; None takes all.
    """

    base: str
    examples: int
    data: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    gpus: tuple[int, float] | None = None
    questions: int | None = None


class TrainingConfig(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """How a model is trained; every kind of model has its own defaults.

    Attributes:
        epochs: passes over the examples, above 0; may be a part of one.
        learning_rate: the peak learning rate, above 0 and at most 1; the rate rises from 0 during the warm-up, and then
            falls to 0. With `lora_rank`, the default is `lora_learning_rate`.
        batch_size: the most examples that a process computes at once.
        gradient_accumulation: a step of the optimizer takes `batch_size` times this many examples, which are divided
            among all processes.
        warmup_ratio: the share of the steps in which the learning rate rises, 0 to 1.
        max_length: the most tokens of one example; the rest is cut off.
        lora_rank: train matrices of this rank beside the frozen weights (LoRA, arXiv:2106.09685), and add them to the
            weights at the end; None trains the weights themselves.
        seed: the seed of the order of examples, of new weights and of dropout.

    Raises:
        ValueOutOfBounds: a value is outside of its bounds.
        UnknownName: there is no such setting.
    """

    lora_learning_rate: ClassVar[float] = 2e-4
    paper: ClassVar[PaperRun | None] = None

    epochs: Epochs = 1.0
    learning_rate: Rate = 2e-5
    batch_size: Count = 16
    gradient_accumulation: Count = 1
    warmup_ratio: Share = 0.1
    max_length: Count = 512
    lora_rank: int | None = Field(default=None, ge=1, le=4096)
    seed: int = Field(default=0, ge=0, lt=2**32)

    def __init__(self, **values: Any) -> None:
        if values.get("lora_rank") is not None:
            values = {"learning_rate": self.lora_learning_rate, **values}
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
        """The settings of the method's paper, with some changed. With `lora_rank`, the learning rate is LoRA's.

        Raises:
            UsageError: the paper trains no such model.
        """
        if cls.paper is None:
            raise UsageError("--preset paper applies only to rq-rag and ra-isf, whose papers train a model")
        own = dict(cls.paper.settings)
        if values.get("lora_rank") is not None:
            own.pop("learning_rate", None)
        return cls(**{**own, **values})

    @property
    def step_size(self) -> int:
        """How many examples a step of the optimizer takes, over all processes."""
        return self.batch_size * self.gradient_accumulation

    def steps(self, examples: int) -> int:
        """How many steps of the optimizer a training on this many examples takes."""
        return math.ceil(self.epochs * math.ceil(examples / self.step_size))

    def divided(self, processes: int) -> tuple[int, int]:
        """How many examples each of the processes computes at once, and how many such batches it has in a step.

        Raises:
            ValueOutOfBounds: the examples of a step cannot be divided evenly.
        """
        share, rest = divmod(self.step_size, processes)
        if rest or not share:
            raise ValueOutOfBounds(
                f"a step of {self.step_size} examples (batch_size × gradient_accumulation) cannot be divided among "
                f"{processes} processes: set them so that {processes} divides their product"
            )
        size = max(size for size in range(1, min(self.batch_size, share) + 1) if share % size == 0)
        return size, share // size


class LanguageModelConfig(TrainingConfig, frozen=True):
    """How a language model is trained.

    Attributes:
        dtype: the dtype of the weights that are trained. `bfloat16` takes half the memory of `float32` (8 bytes a
            weight instead of 16, with gradient and AdamW's two states), but rounds small updates away. Weights that
            LoRA freezes, and all computations, are in bfloat16 if the checkpoint is not in float32 and the processor
            supports it.
        gradient_checkpointing: keep only the input of each layer, and recompute the layer for its gradient, which takes
            less memory and a third more time.
        load_in_4bit: keep the weights that LoRA freezes in 4 bits (QLoRA, arXiv:2305.14314).
        fsdp: shard weights, gradients and states of the optimizer among the processes (fully sharded data parallelism)
            instead of giving each process a copy; checkpoints are written in shards.

    Raises:
        ValueOutOfBounds: `load_in_4bit` without `lora_rank`, or with `fsdp`.
    """

    dtype: Literal["float32", "bfloat16"] = "float32"
    gradient_checkpointing: bool = False
    load_in_4bit: bool = False
    fsdp: bool = False

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        if self.load_in_4bit and self.lora_rank is None:
            raise ValueOutOfBounds("load_in_4bit = True: weights in 4 bits cannot be trained; set lora_rank as well")
        if self.load_in_4bit and self.fsdp:
            raise ValueOutOfBounds("load_in_4bit = True cannot be combined with fsdp: each process keeps its own copy")


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
    measured_on: Literal["dev", "test", "none"] = "test"


class ColBERTConfig(RerankerConfig, frozen=True):
    """How a ColBERT checkpoint is trained; `max_length` is that of passages and queries.

    It is measured by the best 50 passages, whatever the `depth` is, among which wrong passages are found.

    Attributes:
        dim: the dimension of the token vectors, if the base checkpoint is fitted to the passages; None takes that of an
            index.
    """

    learning_rate: Rate = 1e-5
    batch_size: Count = 16
    max_length: Count = 180
    dim: int | None = Field(default=None, ge=16, le=384)


class SubModelConfig(LanguageModelConfig, frozen=True):
    """How RA-ISF's sub-models are labelled and trained.

    The learning rate is the paper's (section 4.5), which gives no other settings. A cross-encoder, which the paper does
    not use, takes 1e-4 unless another rate is given. Prompts of more than `max_length` tokens are left out.

    Attributes:
        know_from: which questions count as known: those that the teacher answers correctly without passages
            (`answers`), or those that it says it knows (`teacher`).
        relevant_from: the teacher's judgement of each passage (`teacher`), or the gold passages of the data (`data`).
        decompose_from: the sub-questions that the teacher writes (`teacher`), or those of the data (`data`).
        top_k: passages that are retrieved and labelled for each question.
        held_out: the share of the questions that are held out, for the models to be measured on.
    """

    lora_learning_rate: ClassVar[float] = 5e-4
    max_length: Count = 1024
    paper: ClassVar[PaperRun | None] = PaperRun(
        base="meta-llama/Llama-2-7b-hf",
        examples=5000,
        questions=1000,
        settings={"learning_rate": 5e-4, "top_k": 5},
        data="1,000 questions drawn from each of NQ, TriviaQA, HotpotQA, StrategyQA and 2WikiMultihopQA, labelled by "
        "GPT-4; the paper does not say how many epochs, examples of a step or GPUs",
    )

    epochs: Epochs = 3.0
    learning_rate: Rate = 5e-4
    know_from: Literal["answers", "teacher"] = "answers"
    relevant_from: Literal["teacher", "data"] = "teacher"
    decompose_from: Literal["teacher", "data"] = "teacher"
    top_k: Count = 5
    held_out: float = Field(default=0.2, ge=0.01, le=0.9)


class GeneratorConfig(LanguageModelConfig, frozen=True):
    """How RQ-RAG's generator is trained: the paper's settings (appendix B.1), and those of its transcripts.

    A step has 32 transcripts over all processes, as in the released script. Transcripts of more than `max_length`
    tokens are left out.

    Attributes:
        top_k: passages per query (appendix B.4: 3).
        max_queries: the most queries of a transcript.
        retention: the share of the questions that keep the data set's own answer instead of one made from what was
            retrieved (section 4.4, figure 4a: 0 is best).
        drop_unfound: leave out a question of several steps whose gold passages were not found (appendix B.4).
        drop_answers: leave out a new answer that the passages do not support, or that is none of the known ones; the
            paper keeps all (section 4.4), so that answers are not tied to the known one.
        mask_evidence: leave the retrieved passages out of the loss.
        depth: the depth of the tree when the model is measured.
        measured_on: the split on whose questions the model is measured; `none` leaves that out.
    """

    paper: ClassVar[PaperRun | None] = PaperRun(
        base="meta-llama/Llama-2-7b-hf",
        settings={"drop_answers": False},
        examples=42_810,
        gpus=(8, 80.0),
        data="42,810 transcripts by gpt-3.5-turbo-0125 for ARC-Easy, ARC-Challenge, OpenBookQA, HotpotQA, MuSiQue, "
        "ASQA, LIMA, WizardLM, OpenOrca, OpenAssistant and GPT4-Alpaca; their shares are in a figure only, and the 32 "
        "transcripts of a step are the released script's",
    )

    batch_size: Count = 1
    gradient_accumulation: Count = 32
    warmup_ratio: Share = 0.03
    max_length: Count = 4096
    gradient_checkpointing: bool = True
    top_k: int = Field(default=3, ge=1, le=20)
    max_queries: int = Field(default=4, ge=1, le=8)
    retention: Share = 0.0
    drop_unfound: bool = True
    drop_answers: bool = True
    mask_evidence: bool = True
    depth: int = Field(default=2, ge=0, le=5)
    measured_on: Literal["dev", "test", "none"] = "test"


class FinetuneConfig(LanguageModelConfig, frozen=True):
    """How a language model is finetuned on the calls of a program; longer calls than `max_length` are left out."""

    epochs: Epochs = 3.0
    batch_size: Count = 4
    warmup_ratio: Share = 0.03
    max_length: Count = 2048
