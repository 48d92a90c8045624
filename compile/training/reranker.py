"""Train a reranker: a cross-encoder that tells gold passages from the wrong ones that an index ranks highest.

The loss is binary cross-entropy, so that a logit of 0 means even odds: the δ that `CrossEncoderReranker` assumes. Where
no model is named, the training starts from the embedded reader's encoder: MiniLM, trained to find answers in passages.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dspy

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.evaluation.metrics.normalize import contains_answer, reference_answers
from knowgap.compiling.evaluation.metrics.retrieval import mrr, recall
from knowgap.compiling.training.config import RerankerConfig
from knowgap.compiling.training.fit import Job
from knowgap.compiling.training.language_model import base_facts
from knowgap.compiling.training.trained import Trained, Values, held_out_questions, train
from knowgap.errors import UsageError
from knowgap.lms.embedded import span_head
from knowgap.retrieval.hub import loading_model
from knowgap.retrieval.minilm import add_changes, minilm_folder, read_weights
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.retrieval.rerankers.cross_encoder import CrossEncoderReranker
from knowgap.retrieval.rerankers.reranker import Reranker
from knowgap.storage.files import file_digest, json_digest
from knowgap.storage.progress import Progress, no_progress

EMBEDDED = "embedded"
"""The name of the embedded reader's encoder."""

_WEIGHTS = Path(span_head.__file__).parent / "span_head.safetensors"
_SCALE = 0.25
"""The factor by which the reader's logit is scaled in the initial score, since training soon moves small scores."""


@dataclass(frozen=True)
class RankedQuestion:
    """A question, its gold passages, and the passages that an index finds for it, best first."""

    example: dspy.Example
    gold: list[Passage]
    found: list[Passage]

    def negatives(self, count: int) -> list[Passage]:
        """The best-ranked passages that are not gold and hold no acceptable answer, since those might be relevant."""
        gold = {passage.text for passage in self.gold}
        answers = [answer for answer in reference_answers(self.example) if answer not in ("yes", "no")]
        wrong = (
            passage for passage in self.found if passage.text not in gold and not contains_answer(str(passage), answers)
        )
        return list(itertools.islice(wrong, count))


def reranker(
    data: Dataset,
    retriever: Retriever,
    output: str | Path,
    *,
    base: str = EMBEDDED,
    config: RerankerConfig | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train a reranker on questions that name their gold passages, and measure it on others.

    A training that was killed continues with the same call.

    Args:
        data: the questions, with `gold_ids`; those of the split `train` are trained on.
        retriever: an index of the passages, which finds wrong ones.
        output: the folder of the model, which `make_reranker` and `--part reranker=FOLDER` take.
        base: a cross-encoder or encoder to start from, by folder or hub name; `embedded` for the embedded reader's.
        config: the settings.
        limit: take at most this many questions of each split.
        progress: called with the units done, all units, and what is done.

    Raises:
        UsageError: no question names gold passages, or the output folder holds something else.
        CheckpointError: the base cannot be loaded.
        MissingDependency: a package of the extra `train` is not installed.
    """
    config = config or RerankerConfig()
    test = held_out_questions(data, config.measured_on, limit)
    questions = find_candidates(test, retriever, data.corpus, config.depth) if test else []
    learnt = find_candidates(data.questions("train", limit), retriever, data.corpus, config.depth)

    def measure() -> Values:
        models = {"untrained": untrained_reranker(base, config.seed), "trained": CrossEncoderReranker(output)}
        orders = {name: rerank(model, questions, progress) for name, model in models.items()}
        return score_orders(questions, {"the index": [question.found for question in questions], **orders})

    job = reranker_job(learnt, output, base=base, config=config)
    return train(job, measure if questions else None, progress=progress)


def find_candidates(
    examples: Sequence[dspy.Example], retriever: Retriever, corpus: Iterable[Passage], depth: int = 50
) -> list[RankedQuestion]:
    """Find `depth` passages in an index for each question whose gold passages are all in the corpus.

    Raises:
        UsageError: no question has known gold passages.

    Warns:
        UserWarning: some questions were left out.
    """
    wanted = {name for example in examples for name in example.get("gold_ids") or ()}
    passages = {passage.id: passage for passage in corpus if passage.id in wanted}
    ready = [e for e in examples if e.get("gold_ids") and all(name in passages for name in e.gold_ids)]
    if not ready:
        raise UsageError(
            f"none of {len(examples)} questions names gold passages (gold_ids) that are among the passages (the id of "
            "a document that was split names none of them): retrieval cannot be trained or measured on them"
        )
    if len(ready) < len(examples):
        left = len(examples) - len(ready)
        warnings.warn(f"{left} of {len(examples)} questions have no known gold passages: left out", stacklevel=2)
    found = retriever.search([example.question for example in ready], depth)
    return [
        RankedQuestion(example, [passages[name] for name in example.gold_ids], [hit.passage for hit in hits])
        for example, hits in zip(ready, found, strict=True)
    ]


def training_pairs(questions: Sequence[RankedQuestion], negatives: int) -> list[tuple[str, str, float]]:
    """Question, passage and label (1 or 0): each gold passage of each question, with at most `negatives` wrong ones."""
    return [
        (question.example.question, str(passage), label)
        for question in questions
        for gold in question.gold
        for passage, label in [(gold, 1.0), *((wrong, 0.0) for wrong in question.negatives(negatives))]
    ]


def reranker_job(
    questions: Sequence[RankedQuestion], output: str | Path, *, base: str = EMBEDDED, config: RerankerConfig
) -> Job:
    """The job that trains a reranker on questions with what an index finds for them; see `reranker`."""
    pairs = training_pairs(questions, config.negatives)

    def build(settings: dict[str, Any]) -> Any:
        from datasets import Dataset
        from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments
        from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

        from knowgap.compiling.training.offline_trainer import OfflineTrainer

        with loading_model(base_folder(base)) as (source, arguments):
            from sentence_transformers import CrossEncoder

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

    own = {"base": base, "base_digest": file_digest(_WEIGHTS)} if base == EMBEDDED else base_facts(base)
    facts = {"kind": "reranker", "data": json_digest(pairs), **own}
    return Job(output=Path(output), config=config, build=build, examples=len(pairs), facts=facts, save=save)


def untrained_reranker(base: str, seed: int = 0) -> Reranker:
    """The reranker that the training starts from; a last layer that the base lacks is drawn at random."""
    from transformers import set_seed

    set_seed(seed)
    return CrossEncoderReranker(base_folder(base), trained=False)


def rerank(
    reranker: Reranker, questions: Sequence[RankedQuestion], progress: Progress | None = None
) -> list[list[Passage]]:
    """What the index found for each question, in the order of a reranker's scores."""
    ranked = []
    for question in questions:
        scores = reranker.score([(question.example.question, str(passage)) for passage in question.found])
        order = sorted(zip(scores, question.found, strict=True), key=lambda pair: -pair[0])
        ranked.append([passage for _, passage in order])
        (progress or no_progress)(len(ranked), len(questions), "questions reranked")
    return ranked


def score_orders(questions: Sequence[RankedQuestion], orders: dict[str, list[list[Passage]]]) -> Values:
    """How well orders of passages, each best first and by its name, put the gold ones of each question first.

    `recall@5` is the share of the gold passages among the best five; `mrr` is the reciprocal rank of the first one, 0
    if there is none.
    """
    examples = [question.example for question in questions]
    return {
        name: {
            "recall@5": [recall(example, order, k=5) for example, order in zip(examples, ranked, strict=True)],
            "mrr": [mrr(example, order) for example, order in zip(examples, ranked, strict=True)],
        }
        for name, ranked in orders.items()
    }


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
