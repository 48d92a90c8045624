"""A small experiment that can be run with any changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from experiment_helpers import logging_lm, make_table, write_data

from knowgap.compiling.experiments.result import ExperimentResult
from knowgap.compiling.experiments.runner import run_experiment


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    return write_data(tmp_path)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "asked.jsonl"


@pytest.fixture
def run(tmp_path: Path, data: dict[str, Any], log: Path) -> Callable[..., ExperimentResult]:
    """Runs the table of `make_table`, with changes of its own, under a language model that logs what it is asked."""

    def run(changes: dict[str, Any] | None = None, **options: Any) -> ExperimentResult:
        given = {"output": tmp_path / "out", "lm": logging_lm(log), "num_threads": 2, **data, **options}
        return run_experiment(make_table(**(changes or {})), **given)

    return run
