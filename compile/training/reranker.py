"""Train a reranker: a cross-encoder that tells gold passages from the wrong ones that an index ranks highest.

The loss is binary cross-entropy, so that a logit of 0 means even odds: the δ that `CrossEncoderReranker` assumes. Where
no model is named, the training starts from the embedded encoder, MiniLM, with a new head.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from knowgap.compiling.evaluation.metrics.answers import contains_answer, reference_answers
from knowgap.compiling.training.config import Job, RerankerConfig
from knowgap.compiling.training.fit import TrainingResult, base_facts, fit
from knowgap.errors import UsageError
from knowgap.retrieval.hub import loading_model
from knowgap.retrieval.minilm import minilm_folder
from knowgap.storage.files import json_digest


def train_reranker(job: Job[RerankerConfig]) -> list[TrainingResult]:
    """Train a reranker on questions that name their gold passages; see `train`."""
    pairs, config = training_pairs(job), job.config
    base = str(minilm_folder()) if job.base == config.default_base else job.base

    def build(settings: dict[str, Any]) -> Any:
        from datasets import Dataset
        from sentence_transformers import CrossEncoder
        from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
        from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

        class OfflineTrainer(CrossEncoderTrainer):
            def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
                """Add none: it would ask the hub about the base."""

        with loading_model(base) as (source, arguments):
            encoder = CrossEncoder(source, num_labels=1, max_length=config.max_length, **arguments)
        columns = dict(zip(("question", "passage", "label"), map(list, zip(*pairs, strict=True)), strict=True))
        return OfflineTrainer(
            model=encoder,
            args=CrossEncoderTrainingArguments(**settings),
            train_dataset=Dataset.from_dict(columns),
            loss=BinaryCrossEntropyLoss(encoder),
        )

    def save(trainer: Any, folder: Path) -> None:
        trainer.model.save_pretrained(str(folder), create_model_card=False)

    facts = {"kind": "reranker", "data": json_digest(pairs), **base_facts(base)}
    return [fit(job.output, config, build, save, facts, job.run.progress)]


def training_pairs(job: Job[RerankerConfig]) -> list[tuple[str, str, float]]:
    """Question, passage and label: 1 for a gold passage, and 0 for each of the wrong ones beside it.

    Wrong are those of the `depth` best passages in the index that are not gold and hold no acceptable answer, since
    those might be relevant; the best `negatives` of them are taken. Questions whose gold passages are not all in the
    corpus are left out.

    Raises:
        UsageError: no question has known gold passages.

    Warns:
        UserWarning: some questions were left out.
    """
    examples = job.examples
    wanted = {name for example in examples for name in example.get("gold_ids") or ()}
    passages = {passage.id: passage for passage in job.corpus if passage.id in wanted}
    ready = [e for e in examples if e.get("gold_ids") and all(name in passages for name in e.gold_ids)]
    if not ready:
        raise UsageError(
            f"none of {len(examples)} questions names gold passages (gold_ids) that are among the passages (the id of "
            "a document that was split names none of them): a reranker cannot be trained on them"
        )
    if len(ready) < len(examples):
        left = len(examples) - len(ready)
        warnings.warn(f"{left} of {len(examples)} questions have no known gold passages: left out", stacklevel=2)
    pairs: list[tuple[str, str, float]] = []
    found = job.retriever.search([example.question for example in ready], job.config.depth)
    for example, hits in zip(ready, found, strict=True):
        gold = [passages[name] for name in example.gold_ids]
        texts = {passage.text for passage in gold}
        answers = [answer for answer in reference_answers(example) if answer not in ("yes", "no")]
        wrong = [
            str(hit.passage)
            for hit in hits
            if hit.passage.text not in texts and not contains_answer(str(hit.passage), answers)
        ]
        for passage in gold:
            pairs.append((example.question, str(passage), 1.0))
            pairs += [(example.question, text, 0.0) for text in wrong[: job.config.negatives]]
    return pairs
