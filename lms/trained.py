"""Loads models that were trained for a part of a method."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from knowgap.errors import CheckpointError
from knowgap.lms.providers import make_lm
from knowgap.lms.rq_rag.generator import TranscriptGenerator
from knowgap.retrieval.hub import check_allowed

TRAINED = ("know", "relevant", "decompose", "generator")
"""The arguments of programs that take a trained model: those of RA-ISF, and `generator` of RQ-RAG."""


def load_trained(
    argument: str, folder: str | Path, *, named_by: Path | None = None, allow_hub: Collection[str] = ()
) -> Any:
    """Load the trained model for an argument of a program.

    A part of RA-ISF is a language model of Transformers; `relevant` may also be a cross-encoder, whose threshold is
    even odds.

    Args:
        argument: a name of `TRAINED`.
        folder: the model's folder, or for a generator also its name on the hub; a generator that the user names may be
            followed by the address of a server that runs it, as FOLDER@URL.
        named_by: the artifact that names the model; None for a model that the user has named.
        allow_hub: names on the hub that an artifact may name; see `check_allowed`.

    Raises:
        CheckpointError: the folder holds no such model, or an artifact names one on the hub that is not allowed.
    """
    if argument != "generator":
        return _load_part(argument, Path(folder).expanduser())
    if named_by is not None:
        check_allowed(str(folder), named_by, allow_hub)
    name, at, server = str(folder).partition("@http")
    return TranscriptGenerator(name, server=f"http{server}" if at and named_by is None else None)


def _load_part(argument: str, folder: Path) -> Any:
    config = folder / "config.json"
    if not config.is_file():
        raise CheckpointError(f"{folder}: no model; `knowgap train ra-isf` makes one for {argument}")
    writes = "ForSequenceClassification" not in config.read_text(encoding="utf-8")
    if not writes and argument == "relevant":
        from knowgap.retrieval.rerankers.cross_encoder import CrossEncoderReranker

        return CrossEncoderReranker(folder, default_threshold=0.0)
    if not writes:
        raise CheckpointError(f"{folder} scores pairs of texts and writes none: it cannot be {argument}")
    return make_lm(f"hf/{folder}")
