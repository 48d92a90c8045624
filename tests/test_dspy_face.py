"""The sources use DSPy by its public names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("app", "compile", "lms", "programs", "retrieval", "signatures")
HIDDEN = re.compile(
    r"(?:from|import) dspy[\w.]*\._\w|from dspy[\w.]* import .*\b_(?!_)\w|\bdspy(?:\.\w+)*\._(?!_)\w"
    r"|\b(?:lm|engine|adapter|predictor|predict|cache|settings)\._(?!_)\w"
    r"|\b(?:GLOBAL_HISTORY|caller_modules|record_history|MAX_HISTORY_SIZE|main_thread_config|thread_local_overrides)\b"
)
"""A private name of DSPy, or one by which it keeps its histories and settings."""


@pytest.mark.parametrize("room", ROOMS)
def test_the_sources_use_public_names(room):
    lines = [line for path in (ROOT / room).rglob("*.py") for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 500
    assert [line for line in lines if HIDDEN.search(line)] == []
