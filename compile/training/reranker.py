"""Train a reranker: a cross-encoder that tells gold passages from the wrong ones that an index ranks highest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowgap.compiling.training.config import TrainingConfig
from knowgap.compiling.training.embedded.cross_encoder import EMBEDDED, base_folder, embedded_digest, load_base
from knowgap.compiling.training.lora import add_adapter, merge_adapters
from knowgap.compiling.training.ranking import RankedQuestion, training_rows
from knowgap.compiling.training.trainer import TrainingResult, measure_step, train
from knowgap.retrieval.colbert.checkpoint import checkpoint_digest
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.rerankers.cross_encoder import CrossEncoderReranker
from knowgap.storage.files import json_digest
from knowgap.storage.progress import Progress, no_progress

if TYPE_CHECKING:
    from sentence_transformers.cross_encoder import CrossEncoderTrainer

    from knowgap.retrieval.rerankers.reranker import Reranker

__all__ = ["RERANKER_CONFIG", "RerankerTraining", "base_facts", "rerank", "untrained_reranker"]

RERANKER_CONFIG = TrainingConfig(epochs=1.0, learning_rate=2e-5, batch_size=32, warmup_ratio=0.1, max_length=256)


class RerankerTraining:
    """A cross-encoder of sentence-transformers that is trained on (question, passage) pairs.

    The loss is binary cross-entropy, so that a logit of 0 means even odds: the δ that `CrossEncoderReranker` assumes.

    Args:
        questions: the training questions, with what an index finds for them.
        base: a cross-encoder or encoder, by folder or hub name; `embedded` for the embedded reader's
            encoder, which has learnt to find answers.
        config: the settings.
        negatives: wrong passages for each gold one.

    Attributes:
        pairs: how many pairs there are.
    """

    def __init__(
        self,
        questions: Sequence[RankedQuestion],
        base: str = EMBEDDED,
        *,
        config: TrainingConfig = RERANKER_CONFIG,
        negatives: int = 4,
    ) -> None:
        self._base, self._config = base, config
        self._pairs: list[dict[str, Any]] = []
        for row in training_rows(questions, negatives, config.seed):
            self._pairs += [
                {"question": row.question, "passage": text, "label": float(n == 0)}
                for n, text in enumerate([row.gold, *row.negatives])
            ]
        self.pairs = len(self._pairs)

    def run(self, output: str | Path, *, overwrite: bool = False, progress: Progress | None = None) -> TrainingResult:
        """Train the reranker, or continue to; `--reranker FOLDER` and `make_reranker(FOLDER)` take the result."""
        from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments

        made_from = {"kind": "reranker", **base_facts(self._base), "data": json_digest(self._pairs)}
        return train(
            output,
            self._config,
            self._build,
            examples=self.pairs,
            made_from=made_from,
            save=_save,
            arguments=CrossEncoderTrainingArguments,
            overwrite=overwrite,
            progress=progress,
        )

    def seconds_per_step(self) -> float:
        """Measure a few steps."""
        from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments

        return measure_step(self._config, self._build, arguments=CrossEncoderTrainingArguments)

    def _build(self, arguments: Any) -> CrossEncoderTrainer:
        from datasets import Dataset
        from sentence_transformers.cross_encoder import CrossEncoderTrainer
        from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

        class Trainer(CrossEncoderTrainer):
            def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
                """Write no card: it would ask the hub about the base model."""

        encoder = load_base(self._base, self._config.max_length)
        add_adapter(encoder, self._config.lora_rank)
        data, loss = Dataset.from_list(self._pairs), BinaryCrossEntropyLoss(encoder)
        return Trainer(model=encoder, args=arguments, train_dataset=data, loss=loss)


def base_facts(base: str) -> dict[str, str]:
    """What a training run records of the model it starts from."""
    if base == EMBEDDED:
        return {"base": base, "base_digest": embedded_digest()}
    return {"base": base, **({"base_digest": checkpoint_digest(base)} if Path(base).is_dir() else {})}


def _save(trainer: Any, folder: Path) -> None:
    merge_adapters(trainer.model)
    trainer.model.save_pretrained(str(folder), create_model_card=False)


def untrained_reranker(base: str, seed: int = 0) -> Reranker:
    """The reranker that the training starts from; a last layer that the base lacks is drawn at random."""
    from transformers import set_seed

    set_seed(seed)
    return CrossEncoderReranker(base_folder(base))


def rerank(
    reranker: Reranker, questions: Sequence[RankedQuestion], *, progress: Progress | None = None
) -> list[list[Passage]]:
    """What the index found for each question, in the order of a reranker's scores."""
    ranked = []
    for question in questions:
        scores = reranker.score([(question.example.question, str(passage)) for passage in question.found])
        order = sorted(zip(scores, question.found, strict=True), key=lambda pair: -pair[0])
        ranked.append([passage for _, passage in order])
        (progress or no_progress)(len(ranked), len(questions), "")
    return ranked
