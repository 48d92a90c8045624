"""Questions answered by a Ray cluster, for a run that outgrows one machine.

Each question is a task. Ray asks it again when the worker that had it dies; its record is written once, by the process
that runs the table, when an answer comes. Workers open the index from its folder, which has to be at the same path for
all of them, and keep it open.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dspy

from knowgap.compile.experiments.cells import Cell, ExperimentSetup
from knowgap.compile.study.budget import Meter, Spent, metering
from knowgap.errors import MissingDependency, UsageError
from knowgap.programs.base import Program

__all__ = ["RemoteProgram", "spreading"]

_RETRIES = 5


class RemoteProgram:
    """Answers questions elsewhere; in all else it is the program that it stands for.

    Args:
        program: what is asked.
        ask: sends a question and the ids of its candidates (None for all passages), and returns prediction and costs.
        candidates: ids of the passages to search, by question.
        meter: counts the calls that were made elsewhere.
    """

    def __init__(self, program: Program, ask: Callable[..., Any], candidates: dict[str, list[str]], meter: Meter):
        self._program, self._ask, self._candidates, self._meter = program, ask, candidates, meter
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._program, name)

    def __call__(self, *, question: str) -> dspy.Prediction:
        """Answer a question; errors are those of the program."""
        prediction, spent = self._ask(question, self._candidates.get(question))
        with self._lock:
            self._meter.spent = self._meter.spent + Spent.model_validate(spent)
        return prediction


@contextmanager
def spreading(address: str, setup: ExperimentSetup, meter: Meter) -> Iterator[Callable[[Cell], RemoteProgram]]:
    """Connect to a cluster; what is yielded makes a cell's program one that answers there.

    Args:
        address: of the cluster's head, `auto` for the one that this machine belongs to, or `local` to start one here.
        setup: what the table is run with.
        meter: counts the calls that were made elsewhere.

    Raises:
        MissingDependency: Ray is not installed.
        UsageError: no cluster answers at the address.
    """
    try:
        import ray
    except ImportError:
        raise MissingDependency("--ray-address needs Ray: pip install 'knowgap[ray]'") from None
    mine = not ray.is_initialized()
    if mine:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UsageError(f"no Ray cluster at {address!r}: {reason}") from error
    task = ray.remote(max_retries=_RETRIES, retry_exceptions=False)(_answer)

    def spread(cell: Cell) -> RemoteProgram:
        recipe = ray.put(_recipe(cell, setup))

        def ask(question: str, ids: list[str] | None) -> Any:
            return ray.get(task.remote(recipe, question, ids))

        chosen = {e.question: list(e.candidates) for e in cell.examples if e.get("candidates")}
        assert cell.program is not None
        return RemoteProgram(cell.program, ask, chosen if cell.row.candidates else {}, meter)

    try:
        yield spread
    finally:
        if mine:
            ray.shutdown()


def _recipe(cell: Cell, setup: ExperimentSetup) -> dict[str, Any]:
    """How a worker makes a cell's program: nothing in it is an open file."""
    from knowgap.compile.experiments.probes import Probe

    program = cell.program
    assert program is not None
    parts: dict[str, Any] = dict(program.values())
    if isinstance(program, Probe):
        parts |= {"examples": cell.examples, "seed": setup.seed}
    for name in ("reranker", "entailment"):
        if getattr(setup, name) is not None and name in program.part_names:
            parts[name] = getattr(setup, name)
    return {
        "key": f"{id(cell)}-{cell.row.label}-{cell.column.dataset}",
        "class": type(program),
        "parts": parts,
        "state": program.dump_state(),
        "index": str(cell.index.resolve()) if cell.index is not None and program.retriever is not None else None,
        "quality": setup.quality,
        "lm": cell.lm,
        "lm_cache": str((setup.output / "lm-cache").resolve()),
    }


_made: dict[str, Program] = {}
_indexes: dict[str, Any] = {}


def _answer(recipe: dict[str, Any], question: str, ids: list[str] | None) -> tuple[dspy.Prediction, dict[str, Any]]:
    """Answer one question in a worker."""
    program = _made.get(recipe["key"])
    if program is None:
        program = _made[recipe["key"]] = _make(recipe)
    if ids:
        from knowgap.retrieval import CandidateRetriever

        index: Any = program.retriever
        program = program.deepcopy()
        program.retriever = CandidateRetriever.within(index, ids)
    meter = Meter()
    with dspy.context(lm=recipe["lm"]), metering(meter):
        prediction = program(question=question)
    return prediction, meter.spent.model_dump()


def _make(recipe: dict[str, Any]) -> Program:
    from knowgap.lms import quiet_dspy
    from knowgap.retrieval import open_index

    quiet_dspy(recipe["lm_cache"] if Path(recipe["lm_cache"]).is_dir() else None)
    folder = recipe["index"]
    if folder is not None and folder not in _indexes:
        _indexes[folder] = open_index(folder, quality=recipe["quality"])
    program = recipe["class"](retriever=_indexes[folder] if folder else None, **recipe["parts"])
    program.load_state(recipe["state"])
    return program
