"""Loads models that were trained for a part of a method."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from knowgap.lms.ra_isf.card import TASKS
from knowgap.lms.ra_isf.sub_models import load_sub_model
from knowgap.lms.rq_rag.generator import TranscriptGenerator
from knowgap.retrieval.hub import check_allowed

TRAINED = (*TASKS, "generator")
"""The arguments of programs that take a trained model: those of RA-ISF, and `generator` of RQ-RAG."""


def load_trained(
    argument: str, folder: str | Path, *, named_by: Path | None = None, allow_hub: Collection[str] = ()
) -> Any:
    """Load the trained model for an argument of a program.

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
        return load_sub_model(argument, folder)
    if named_by is not None:
        check_allowed(str(folder), named_by, allow_hub)
    name, at, server = str(folder).partition("@http")
    return TranscriptGenerator(name, server=f"http{server}" if at and named_by is None else None)
