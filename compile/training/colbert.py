"""Train a ColBERT checkpoint: token vectors whose late interaction puts gold passages before the wrong ones."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from knowgap.compiling.training.config import TrainingConfig
from knowgap.compiling.training.lora import add_adapter, merge_adapters
from knowgap.compiling.training.ranking import RankedQuestion, training_rows
from knowgap.compiling.training.trainer import TrainingResult, measure_step, train
from knowgap.errors import CheckpointError
from knowgap.retrieval.colbert.checkpoint import (
    checkpoint_digest,
    resolve_checkpoint,
    write_embedded_checkpoint,
)
from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.colbert.index import ColBERTIndex
from knowgap.retrieval.passage import Passage
from knowgap.retrieval.rerankers.cross_encoder import loading_model
from knowgap.storage.files import json_digest
from knowgap.storage.progress import Progress

if TYPE_CHECKING:
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.multi_vector_encoder import MultiVectorEncoderTrainer

__all__ = ["COLBERT_CONFIG", "ColBERTTraining", "base_checkpoint", "search_with"]

COLBERT_CONFIG = TrainingConfig(epochs=1.0, learning_rate=1e-5, batch_size=16, warmup_ratio=0.1, max_length=180)

_WEIGHTS = "model.safetensors"
_PROJECTION = "linear.weight"


@contextmanager
def base_checkpoint(name: str, passages: Sequence[Passage], dim: int | None = None) -> Iterator[Path]:
    """The folder of the checkpoint to start from, as long as the block runs.

    Args:
        name: a checkpoint by folder or hub name; `embedded` for the one that is fitted to the passages.
        passages: the corpus.
        dim: width of the embedded checkpoint's token vectors; see `write_embedded_checkpoint`.

    Raises:
        CheckpointError: it is no ColBERT checkpoint, or its weights are not in one `model.safetensors`.
    """
    if name == "embedded":
        with TemporaryDirectory() as folder:
            write_embedded_checkpoint(passages, folder, dim=dim)
            yield Path(folder)
        return
    folder = resolve_checkpoint(name)
    if not (folder / _WEIGHTS).is_file() or not (folder / "artifact.metadata").is_file():
        raise CheckpointError(f"{name}: not a ColBERT checkpoint with {_WEIGHTS} and artifact.metadata")
    yield folder


class ColBERTTraining:
    """A ColBERT checkpoint that is trained on questions, their gold passages, and wrong ones.

    The loss is that of choosing the gold passage among its own wrong passages and all passages of the batch, by the
    sum of maximal similarities; other gold passages of the question are not among them. Vectors of queries have the
    weights and the expansion that they will have in a search.

    Args:
        questions: the training questions, with what an index finds for them.
        base: the folder of the checkpoint to start from; see `base_checkpoint`.
        name: the checkpoint's name, for the record.
        config: the settings; `max_length` is that of passages and queries.
        negatives: wrong passages for each gold one.

    Attributes:
        rows: how many gold passages there are.
    """

    def __init__(
        self,
        questions: Sequence[RankedQuestion],
        base: Path,
        *,
        name: str,
        config: TrainingConfig = COLBERT_CONFIG,
        negatives: int = 4,
    ) -> None:
        self._base, self._name, self._config = base, name, config
        self._rows = [
            {"question": row.question, "gold": row.gold, **{f"wrong_{n}": text for n, text in enumerate(row.negatives)}}
            for row in training_rows(questions, negatives, config.seed)
        ]
        self.rows = len(self._rows)

    def run(self, output: str | Path, *, overwrite: bool = False, progress: Progress | None = None) -> TrainingResult:
        """Train the checkpoint, or continue to; `knowgap index` takes the result as `--checkpoint`."""
        facts = {"base": self._name, "base_digest": checkpoint_digest(self._base), "data": json_digest(self._rows)}
        return train(
            output,
            self._config,
            self._build,
            examples=self.rows,
            made_from={"kind": "colbert", **facts},
            save=self._save,
            overwrite=overwrite,
            progress=progress,
            **self._arguments(),
        )

    def seconds_per_step(self) -> float:
        """Measure a few steps."""
        return measure_step(self._config, self._build, **self._arguments())

    def _arguments(self) -> dict[str, Any]:
        from sentence_transformers.multi_vector_encoder import MultiVectorEncoderTrainingArguments

        return {"arguments": MultiVectorEncoderTrainingArguments, "max_length": self._config.max_length}

    def _build(self, arguments: Any) -> MultiVectorEncoderTrainer:
        from datasets import Dataset
        from sentence_transformers.multi_vector_encoder import MultiVectorEncoderTrainer

        class Trainer(MultiVectorEncoderTrainer):
            def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
                """Write no card: it would ask the hub about the base model."""

        encoder, loss = self._load()
        add_adapter(encoder, self._config.lora_rank)
        return Trainer(model=encoder, args=arguments, train_dataset=Dataset.from_list(self._rows), loss=loss)

    def _load(self) -> tuple[MultiVectorEncoder, torch.nn.Module]:
        """The model, and a loss that weighs the tokens of queries as a search does."""
        import torch

        with loading_model(self._name):
            from sentence_transformers import MultiVectorEncoder

            encoder = MultiVectorEncoder(str(self._base), local_files_only=True)
        as_searched = TokenEncoder(self._base, device="cpu")
        if not as_searched.settings.get("query_expansion", True):
            transformer: Any = encoder[0]
            transformer.query_expansion = None
        weights = as_searched.token_weights
        return encoder, _loss(encoder, None if weights is None else torch.from_numpy(weights))

    def _save(self, trainer: Any, folder: Path) -> None:
        """Write the checkpoint as colbert-ai does: the base's files with other weights."""
        from safetensors.torch import load_file, save_file

        merge_adapters(trainer.model)
        shutil.copytree(
            self._base, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(_WEIGHTS, "training.json")
        )
        trained = {name: tensor.detach().cpu().contiguous() for name, tensor in trainer.model.state_dict().items()}
        tensors = load_file(self._base / _WEIGHTS)
        for name in tensors:  # the encoder's names have the name of its architecture before them: bert.encoder.…
            inside = "1.linear.weight" if name == _PROJECTION else f"0.model.{name.partition('.')[2]}"
            if inside in trained:
                tensors[name] = trained[inside].float()
        save_file(tensors, folder / _WEIGHTS, metadata={"format": "pt"})


def _loss(encoder: MultiVectorEncoder, token_weights: torch.Tensor | None) -> torch.nn.Module:
    """The contrastive loss, with weights of query tokens, and without the other gold passages of a question."""
    import torch
    from sentence_transformers.multi_vector_encoder.losses import MultiVectorMultipleNegativesRankingLoss
    from sentence_transformers.multi_vector_encoder.scoring import colbert_scores

    padding = encoder.tokenizer.pad_token_id

    def equal(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Which texts are the same, [texts of one, texts of the other]."""
        width = max(one.shape[1], other.shape[1])
        one, other = (torch.nn.functional.pad(ids, (0, width - ids.shape[1]), value=padding) for ids in (one, other))
        return (one[:, None] == other[None]).all(-1)

    class Loss(MultiVectorMultipleNegativesRankingLoss):
        def forward(self, sentence_features: Any, labels: Any = None) -> torch.Tensor:
            features = list(sentence_features)
            queries, gold, *_ = ids = [each["input_ids"] for each in features]
            excluded = torch.stack([equal(gold, passages) for passages in ids[1:]], dim=-1)  # [queries, rows, columns]
            excluded[..., 0] |= equal(queries, queries)
            excluded[..., 0].fill_diagonal_(False)
            excluded = excluded.flatten(1)
            weights = 1.0 if token_weights is None else token_weights.to(queries.device)[queries][..., None]

            def scores(vectors: torch.Tensor, passages: torch.Tensor, **masks: Any) -> torch.Tensor:
                return colbert_scores(vectors * weights, passages, **masks).masked_fill(excluded, -torch.inf)

            self.similarity_fct = scores
            return super().forward(features, labels)

    return Loss(encoder)


def search_with(
    checkpoint: Path,
    questions: Sequence[RankedQuestion],
    passages: Sequence[Passage],
    *,
    depth: int = 50,
    progress: Progress | None = None,
) -> list[list[Passage]]:
    """What a ColBERT index of the passages, encoded by a checkpoint, finds for each question."""
    with TemporaryDirectory() as folder:
        index = ColBERTIndex.build(passages, Path(folder) / "index", checkpoint=checkpoint, progress=progress)
        hits = index.search([question.example.question for question in questions], depth)
    return [[hit.passage for hit in found] for found in hits]
