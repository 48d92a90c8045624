"""Train a ColBERT checkpoint: token vectors whose late interaction puts gold passages before the wrong ones.

The loss is the cross-entropy of choosing the gold passage among its own wrong passages and all passages of the batch,
by the sum of maximal similarities; other gold passages of the question are excluded. Query vectors have the weights and
the expansion that they will have in a search.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.training.config import ColBERTConfig
from knowgap.compiling.training.cross_encoder import check_window, read_base_config
from knowgap.compiling.training.fit import Job, TrainingPlan
from knowgap.compiling.training.lora import add_adapter, merge_adapters
from knowgap.compiling.training.ranking import RankedQuestion, train_ranking, training_rows
from knowgap.compiling.training.trained import Trained
from knowgap.errors import CheckpointError, UsageError
from knowgap.retrieval.colbert.checkpoint import checkpoint_digest, resolve_checkpoint, write_embedded_checkpoint
from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.colbert.index import ColBERTIndex
from knowgap.retrieval.hub import loading_model
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.storage.files import json_digest
from knowgap.storage.progress import Progress

if TYPE_CHECKING:
    import torch
    from sentence_transformers import MultiVectorEncoder

_WEIGHTS = "model.safetensors"
_PROJECTION = "linear.weight"
_CUTOFFS = (5, 50)


def colbert(
    data: Dataset,
    retriever: Retriever,
    output: str | Path,
    *,
    base: str = "embedded",
    config: ColBERTConfig | None = None,
    limit: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Trained | TrainingPlan:
    """Train a ColBERT checkpoint on questions that name their gold passages, and measure it on others.

    To measure it, all passages are indexed before and after. A training that was killed continues with the same call.

    Args:
        data: the questions, with `gold_ids`; those of the split `train` are trained on.
        retriever: an index of the passages, which finds wrong ones.
        output: the folder of the checkpoint, which `build_index` takes as `checkpoint`.
        base: a checkpoint to start from, by folder or hub name; `embedded` for the one that is fitted to the passages.
        config: the settings.
        limit: take at most this many questions of each split.
        dry_run: train nothing, and return what the training would take.
        progress: called with the units done, all units, and what is done.

    Raises:
        UsageError: no question names gold passages, `max_length` is more than the base reads, or the output folder
            holds something else.
        CheckpointError: the base is no ColBERT checkpoint.
        MissingDependency: a package of the extra `train` is not installed.
    """
    settings = config or ColBERTConfig()
    if base != "embedded" and settings.dim is not None:
        raise UsageError(f"dim = {settings.dim} applies only to the embedded base; {base} has a width of its own")
    search = partial(search_with, passages=data.corpus, depth=_CUTOFFS[-1], progress=progress)
    with base_checkpoint(base, data.corpus, settings.dim) as folder:
        return train_ranking(
            data,
            retriever,
            settings,
            lambda questions: colbert_job(questions, output, folder, name=base, config=settings),
            {"untrained": partial(search, folder), "trained": partial(search, Path(output))},
            cutoffs=_CUTOFFS,
            measured_depth=_CUTOFFS[-1],
            limit=limit,
            dry_run=dry_run,
            progress=progress,
        )


@contextmanager
def base_checkpoint(name: str, passages: Sequence[Passage], dim: int | None = None) -> Iterator[Path]:
    """Yield the folder of the checkpoint to start from; see `base` of `colbert` for its name.

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


def colbert_job(
    questions: Sequence[RankedQuestion], output: str | Path, base: Path, *, name: str, config: ColBERTConfig
) -> Job:
    """The job that trains a checkpoint on questions with what an index finds for them; `name` is that of the base."""
    check_window(read_base_config(base), name, config.max_length)
    rows = [
        {"question": row.question, "gold": row.gold, **{f"wrong_{n}": text for n, text in enumerate(row.negatives)}}
        for row in training_rows(questions, config.negatives, config.seed)
    ]

    def build(settings: dict[str, Any]) -> Any:
        from datasets import Dataset
        from sentence_transformers.multi_vector_encoder import MultiVectorEncoderTrainingArguments

        from knowgap.compiling.training.trainers import ColBERTTrainer

        encoder, loss = load_encoder(base)
        add_adapter(encoder, config.lora_rank)
        arguments = MultiVectorEncoderTrainingArguments(**settings, max_length=config.max_length)
        return ColBERTTrainer(model=encoder, args=arguments, train_dataset=Dataset.from_list(rows), loss=loss)

    return Job(
        output=Path(output),
        config=config,
        build=build,
        examples=len(rows),
        facts={"kind": "colbert", "base": name, "base_digest": checkpoint_digest(base), "data": json_digest(rows)},
        save=lambda trainer, folder: _save(trainer, base, folder),
    )


def load_encoder(base: Path) -> tuple[MultiVectorEncoder, torch.nn.Module]:
    """The model of a checkpoint, and a loss that weighs the tokens of queries as a search does."""
    import torch

    with loading_model(base) as (source, arguments):
        from sentence_transformers import MultiVectorEncoder

        from knowgap.compiling.training.trainers import QuestionLoss

        encoder = MultiVectorEncoder(source, **arguments)
    as_searched = TokenEncoder(base, device="cpu")
    if not as_searched.settings.get("query_expansion", True):
        transformer: Any = encoder[0]
        transformer.query_expansion = None
    weights = as_searched.token_weights
    return encoder, QuestionLoss(encoder, None if weights is None else torch.from_numpy(weights))


def _save(trainer: Any, base: Path, folder: Path) -> None:
    """Write the checkpoint as colbert-ai does: the base's files with other weights."""
    from safetensors.torch import load_file, save_file

    merge_adapters(trainer.model)
    shutil.copytree(base, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(_WEIGHTS, "training.json"))
    trained = {name: tensor.detach().cpu().contiguous() for name, tensor in trainer.model.state_dict().items()}
    tensors = load_file(base / _WEIGHTS)
    for name in tensors:  # the encoder's names begin with the name of its architecture: bert.encoder.…
        inside = "1.linear.weight" if name == _PROJECTION else f"0.model.{name.partition('.')[2]}"
        if inside in trained:
            tensors[name] = trained[inside].float()
    save_file(tensors, folder / _WEIGHTS, metadata={"format": "pt"})


def search_with(
    checkpoint: Path,
    questions: Sequence[RankedQuestion],
    passages: Sequence[Passage],
    *,
    depth: int,
    progress: Progress | None = None,
) -> list[list[Passage]]:
    """What a ColBERT index of the passages, encoded by a checkpoint, finds for each question."""
    with TemporaryDirectory() as folder:
        index = ColBERTIndex.build(passages, Path(folder) / "index", checkpoint=checkpoint, progress=progress)
        hits = index.search([question.example.question for question in questions], depth)
    return [[hit.passage for hit in found] for found in hits]
