"""Train models on your own questions: `knowgap.train("reranker", …)`.

`knowgap eval --part …` tells what a model is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from knowgap.compiling.data.dataset import Dataset
from knowgap.compiling.run import Run
from knowgap.compiling.training.config import GeneratorConfig, Job, RerankerConfig, SubModelConfig, TrainingConfig
from knowgap.compiling.training.fit import TrainingResult
from knowgap.compiling.training.generator import train_rq_rag
from knowgap.compiling.training.reranker import train_reranker
from knowgap.compiling.training.sub_models import train_ra_isf
from knowgap.errors import UnknownName, UsageError
from knowgap.retrieval.passage import Retriever

__all__ = ["KINDS", "TrainingResult", "plan", "train"]

KINDS: dict[str, tuple[type[TrainingConfig], Callable[..., list[TrainingResult]]]] = {
    "reranker": (RerankerConfig, train_reranker),
    "ra-isf": (SubModelConfig, train_ra_isf),
    "rq-rag": (GeneratorConfig, train_rq_rag),
}
"""Kinds of models by name, each with its settings and what trains it."""


def plan(kind: str, base: str = "", preset: str | None = None, **settings: Any) -> tuple[TrainingConfig, str]:
    """The settings of a training and the model that it starts from; raises what `train` would, and loads nothing."""
    if kind not in KINDS:
        raise UnknownName.among("kind of model", kind, KINDS)
    config = KINDS[kind][0](**settings)
    if preset and not config.paper_base:
        raise UsageError("--preset paper applies only to rq-rag and ra-isf, whose papers train a model")
    base = base or (config.paper_base if preset else config.default_base)
    if not base:
        raise UsageError(f"train {kind}: name the model to start from with --model")
    return config, base


def train(
    kind: str,
    data: Dataset,
    retriever: Retriever,
    output: str | Path,
    *,
    base: str = "",
    preset: str | None = None,
    limit: int | None = None,
    run: Run = Run(),
    **settings: Any,
) -> list[TrainingResult]:
    """Train a model on the questions of the split `train`; the same call continues a training that was killed.

    - "reranker" is a cross-encoder that learns from questions that name their gold passages (`gold_ids`).
    - "ra-isf" is RA-ISF's three sub-models, in `output/know`, `output/relevant` and `output/decompose`, with the labels
      of a teacher beside them.
    - "rq-rag" is RQ-RAG's generator, which learns from the transcripts of a teacher, in `OUTPUT-transcripts.jsonl`.

    Labels and transcripts that were made elsewhere are taken over.

    Args:
        kind: a key of `KINDS`.
        data: the questions.
        retriever: an index of the passages: finds wrong ones for a reranker, those to label, or what queries find.
        output: the folder of the model, which `--part NAME=FOLDER` takes.
        base: the model to start from, by folder or hub name: a cross-encoder or encoder for a reranker (by default the
            embedded encoder), a T5 or a causal model for "ra-isf", a causal model for "rq-rag".
        preset: "paper" for the base of the method's paper.
        limit: take at most this many questions.
        run: the teacher as its language model, how many questions it is asked at a time, the seed, and a callback.
        **settings: those of the kind, such as `epochs`; see `TrainingConfig` and its subclasses.

    Returns:
        What was trained: one model, or three.

    Raises:
        UsageError: a setting does not fit, there is nothing to learn from or no teacher, or the output holds something
            else.
        LanguageModelError: the teacher does not answer, or the base cannot be loaded.
        CheckpointError: the base of a reranker cannot be loaded.
        MissingDependency: a package of the extra `train` is not installed.

    >>> import knowgap
    >>> knowgap.train("rq-rag", knowgap.load_dataset("sample"), None, "generator")
    Traceback (most recent call last):
    knowgap.errors.UsageError: train rq-rag: name the model to start from with --model
    """
    config, base = plan(kind, base, preset, **{"seed": run.seed, **settings})
    passages: Any = data.corpus or (retriever if isinstance(retriever, Iterable) else ())
    return KINDS[kind][1](Job(data.questions("train", limit), retriever, passages, Path(output), base, config, run))
