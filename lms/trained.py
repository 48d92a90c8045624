"""Models that were trained for parts of a method, by the argument of the program that takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from knowgap.lms.ra_isf.card import TASKS
from knowgap.lms.ra_isf.sub_models import load_sub_model
from knowgap.lms.rq_rag.generator import TranscriptGenerator

TRAINED = (*TASKS, "generator")
"""`know`, `relevant` and `decompose` of RA-ISF, `generator` of RQ-RAG."""


def load_trained(argument: str, folder: str | Path) -> Any:
    """Load the model in a folder as an argument of `TRAINED`.

    Raises:
        CheckpointError: the folder holds no such model.
    """
    return TranscriptGenerator(folder) if argument == "generator" else load_sub_model(argument, folder)
