"""Train a reranker: a cross-encoder that tells gold passages from the wrong ones that an index ranks highest.

The loss is binary cross-entropy, so that a logit of 0 means even odds: the δ that `CrossEncoderReranker` assumes. Where
no model is named, the training starts from the embedded reader's encoder: MiniLM, trained to find answers in passages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.training.config import RerankerConfig, TrainingConfig
from knowgap.compiling.training.fit import Job, TrainingPlan
from knowgap.compiling.training.lora import add_adapter, merge_adapters
from knowgap.compiling.training.ranking import RankedQuestion, train_ranking, training_rows
from knowgap.compiling.training.trained import Trained
from knowgap.errors import UsageError
from knowgap.lms.embedded import span_head
from knowgap.retrieval.colbert.checkpoint import checkpoint_digest
from knowgap.retrieval.hub import loading_model
from knowgap.retrieval.minilm import add_changes, minilm_folder, read_weights
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.retrieval.rerankers.cross_encoder import CrossEncoderReranker
from knowgap.storage.files import file_digest, json_digest
from knowgap.storage.progress import Progress, no_progress

if TYPE_CHECKING:
    from knowgap.retrieval.rerankers.reranker import Reranker

EMBEDDED = "embedded"
"""The name of the embedded reader's encoder."""

_WEIGHTS = Path(span_head.__file__).parent / "span_head.safetensors"
_SCALE = 0.25
"""The factor by which the reader's logit is scaled in the initial score, since training soon moves small scores."""


def reranker(
    data: Dataset,
    retriever: Retriever,
    output: str | Path,
    *,
    base: str = EMBEDDED,
    config: RerankerConfig | None = None,
    limit: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Trained | TrainingPlan:
    """Train a reranker on questions that name their gold passages, and measure it on others.

    A training that was killed continues with the same call.

    Args:
        data: the questions, with `gold_ids`; those of the split `train` are trained on.
        retriever: an index of the passages, which finds wrong ones.
        output: the folder of the model, which `make_reranker` and `--part reranker=FOLDER` take.
        base: a cross-encoder or encoder to start from, by folder or hub name; `embedded` for the embedded reader's.
        config: the settings.
        limit: take at most this many questions of each split.
        dry_run: train nothing, and return what the training would take.
        progress: called with the units done, all units, and what is done.

    Raises:
        UsageError: no question names gold passages, `max_length` is more than the base reads, or the output folder
            holds something else.
        CheckpointError: the base cannot be loaded.
        MissingDependency: a package of the extra `train` is not installed.
    """
    settings = config or RerankerConfig()
    ranked = partial(rerank, progress=progress)
    return train_ranking(
        data,
        retriever,
        settings,
        lambda questions: reranker_job(questions, output, base=base, config=settings),
        {
            "untrained": lambda questions: ranked(untrained_reranker(base, settings.seed), questions),
            "trained": lambda questions: ranked(CrossEncoderReranker(output), questions),
        },
        limit=limit,
        dry_run=dry_run,
        progress=progress,
    )


def reranker_job(
    questions: Sequence[RankedQuestion], output: str | Path, *, base: str = EMBEDDED, config: RerankerConfig
) -> Job:
    """The job that trains a reranker on questions with what an index finds for them; see `reranker`."""
    pairs = [
        (row.question, text, float(n == 0))
        for row in training_rows(questions, config.negatives, config.seed)
        for n, text in enumerate([row.gold, *row.negatives])
    ]
    check_window(read_base_config(base_folder(base)), base, config.max_length)
    facts = {"kind": "reranker", "data": json_digest(pairs)}
    return cross_encoder_job(pairs, output, base=base, config=config, facts=facts)


def cross_encoder_job(
    pairs: Sequence[tuple[str, str, float]],
    output: str | Path,
    *,
    base: str,
    config: TrainingConfig,
    facts: Mapping[str, Any],
) -> Job:
    """The job that trains a cross-encoder on pairs of texts, each with its label, a probability."""

    def build(settings: dict[str, Any]) -> Any:
        from datasets import Dataset
        from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments
        from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

        from knowgap.compiling.training.trainers import RerankerTrainer

        with loading_model(base_folder(base)) as (source, arguments):
            from sentence_transformers import CrossEncoder

            encoder = CrossEncoder(source, num_labels=1, max_length=config.max_length, **arguments)
        add_adapter(encoder, config.lora_rank)
        columns = dict(zip(("question", "passage", "label"), map(list, zip(*pairs, strict=True)), strict=True))
        return RerankerTrainer(
            model=encoder,
            args=CrossEncoderTrainingArguments(**settings),
            train_dataset=Dataset.from_dict(columns),
            loss=BinaryCrossEntropyLoss(encoder),
        )

    def save(trainer: Any, folder: Path) -> None:
        merge_adapters(trainer.model)
        trainer.model.save_pretrained(str(folder), create_model_card=False)

    facts = {**base_facts(base), **facts}
    return Job(output=Path(output), config=config, build=build, examples=len(pairs), facts=facts, save=save)


def untrained_reranker(base: str, seed: int = 0) -> Reranker:
    """The reranker that the training starts from; a last layer that the base lacks is drawn at random."""
    from transformers import set_seed

    set_seed(seed)
    return CrossEncoderReranker(base_folder(base), trained=False)


def rerank(
    reranker: Reranker, questions: Sequence[RankedQuestion], *, progress: Progress | None = None
) -> list[list[Passage]]:
    """What the index found for each question, in the order of a reranker's scores."""
    ranked = []
    for question in questions:
        scores = reranker.score([(question.example.question, str(passage)) for passage in question.found])
        order = sorted(zip(scores, question.found, strict=True), key=lambda pair: -pair[0])
        ranked.append([passage for _, passage in order])
        (progress or no_progress)(len(ranked), len(questions), "questions reranked")
    return ranked


def base_facts(base: str) -> dict[str, str]:
    """What a training run records of the model it starts from."""
    if base == EMBEDDED:
        return {"base": base, "base_digest": file_digest(_WEIGHTS)}
    return {"base": base, **({"base_digest": checkpoint_digest(base)} if Path(base).is_dir() else {})}


def read_base_config(folder: str | Path) -> Any:
    """The configuration of a model to start from, by folder or hub name.

    Raises:
        CheckpointError: there is no such model.
    """
    with loading_model(folder) as (source, arguments):
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(source, **arguments)


def check_window(base_config: Any, base: str, max_length: int) -> None:
    """Refuse a `max_length` of more tokens than a model reads; the first longer text would end the training.

    Raises:
        UsageError: it is too large.
    """
    window = getattr(base_config.get_text_config(), "max_position_embeddings", None)
    if window is not None and max_length > window:
        raise UsageError(f"max_length = {max_length}: {base} reads at most {window} tokens")


def base_folder(base: str) -> str:
    """The folder or hub name of a model to start from."""
    return _embedded().name if base == EMBEDDED else base


@lru_cache(maxsize=1)
def _embedded() -> TemporaryDirectory[str]:
    """The reader's encoder as a cross-encoder, in a folder that is deleted when this process ends.

    A pair's score is the reader's logit against "not in this passage", scaled down and bounded.
    """
    import torch
    from sentence_transformers import CrossEncoder

    _, tensors = read_weights(_WEIGHTS.parent, _WEIGHTS.stem)
    with loading_model(minilm_folder()) as (source, arguments):
        encoder = CrossEncoder(source, num_labels=1, **arguments)
    network: Any = encoder.model
    add_changes(network.bert, tensors)
    pooler, scores = network.bert.pooler.dense, network.classifier
    none = torch.from_numpy(tensors["output"]).float().sum(dim=0)  # start and end at the first position mean no answer
    with torch.no_grad():
        pooler.weight[0], pooler.bias[0] = -0.1 * none, 0.0
        scores.weight.zero_()
        scores.bias.zero_()
        scores.weight[0, 0] = 10 * _SCALE
    folder = TemporaryDirectory(prefix="knowgap-")
    encoder.save_pretrained(folder.name, create_model_card=False)
    return folder
