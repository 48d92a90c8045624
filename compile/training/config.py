"""What is trained on what, and the settings: those of every model, and those of each kind of model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Generic, TypeVar

import dspy
from pydantic import Field

from knowgap.compiling.run import Run
from knowgap.compiling.settings import Settings
from knowgap.retrieval.passage import Passage, Retriever

Count = Annotated[int, Field(ge=1)]


class TrainingConfig(Settings, frozen=True):
    """How a model is trained; every kind of model has its own defaults.

    Attributes:
        epochs: passes over the examples; may be a part of one.
        learning_rate: the peak learning rate; the rate rises from 0 during the warm-up, and then falls to 0.
        batch_size: the examples that a process computes at once.
        gradient_accumulation: a step of the optimizer takes `batch_size` times this many examples of each process.
        warmup_ratio: the share of the steps in which the learning rate rises.
        max_length: the most tokens of one example.
        seed: the seed of the order of examples, of new weights and of dropout.
    """

    what: ClassVar[str] = "training setting"
    paper_base: ClassVar[str] = ""
    """The model that the method's paper starts from, by its name on the hub; empty if it trains none."""
    default_base: ClassVar[str] = ""
    """The model to start from unless another is named; empty if one must be."""

    epochs: float = Field(default=1.0, gt=0)
    learning_rate: float = Field(default=2e-5, gt=0)
    batch_size: Count = 16
    gradient_accumulation: Count = 1
    warmup_ratio: float = Field(default=0.1, ge=0, lt=1)
    max_length: Count = 512
    seed: int = Field(default=0, ge=0)


C_co = TypeVar("C_co", bound=TrainingConfig, covariant=True)


@dataclass(frozen=True)
class Job(Generic[C_co]):
    """What `train` was asked for: `corpus` are the passages of the data or the index, `run.lm` is the teacher."""

    examples: Sequence[dspy.Example]
    retriever: Retriever
    corpus: Iterable[Passage]
    output: Path
    base: str
    config: C_co
    run: Run


class RerankerConfig(TrainingConfig, frozen=True):
    """How a reranker is trained.

    Attributes:
        negatives: wrong passages for each gold one.
        depth: passages of the index among which wrong ones are found.
    """

    default_base: ClassVar[str] = "embedded"

    batch_size: Count = 32
    max_length: Count = 256
    negatives: Count = 4
    depth: Count = 50


class LanguageModelConfig(TrainingConfig, frozen=True):
    """How a language model is trained; longer examples than `max_length` are left out.

    Attributes:
        lora_rank: train matrices of this rank beside the frozen weights (LoRA, arXiv:2106.09685), and add them to the
            weights at the end; None trains the weights themselves. It takes a learning rate some ten times higher.
        gradient_checkpointing: keep only the input of each layer, and recompute the layer for its gradient, which takes
            less memory and a third more time.
    """

    paper_base: ClassVar[str] = "meta-llama/Llama-2-7b-hf"

    lora_rank: Count | None = None
    gradient_checkpointing: bool = False


class SubModelConfig(LanguageModelConfig, frozen=True):
    """How RA-ISF's sub-models are labelled and trained.

    The learning rate is the paper's (section 4.5), which gives no other settings.

    Attributes:
        top_k: passages that are retrieved and labelled for each question.
    """

    epochs: float = Field(default=3.0, gt=0)
    learning_rate: float = Field(default=5e-4, gt=0)
    max_length: Count = 1024
    top_k: Count = 5


class GeneratorConfig(LanguageModelConfig, frozen=True):
    """How RQ-RAG's generator is trained: the paper's settings (appendix B.1).

    A step has 32 transcripts in one process, as in the released script.

    Attributes:
        top_k: passages per query of a transcript (appendix B.4: 3).
    """

    batch_size: Count = 1
    gradient_accumulation: Count = 32
    warmup_ratio: float = Field(default=0.03, ge=0, lt=1)
    max_length: Count = 4096
    gradient_checkpointing: bool = True
    top_k: Count = 3
