"""Questions answered by a Ray cluster, for a run that outgrows one machine.

Each question is a task, which Ray gives to another worker if its worker dies. The process that evaluates writes the
record of a question once, when its answer arrives. A worker makes each program once and keeps it. It opens the index
from its folder, which therefore has to be at the same path on all machines.
"""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dspy

from knowgap.compiling.evaluation.delegating_program import ask_among
from knowgap.errors import MissingDependency, UsageError, shorten
from knowgap.lms.metering import Usage, UsageTracker, track_usage, without_history
from knowgap.programs.base import Program

Ask = Callable[[str, "Collection[str] | None"], dspy.Prediction]
Cluster = Callable[[Callable[..., Program], "Path | str | None", dict[str, Any], Any], Ask]


_SECONDS = 10  # to wait until the head of a cluster accepts a connection


@contextmanager
def ray_cluster(address: str | None) -> Iterator[Any]:
    """Connect to a cluster, and disconnect at the end; yields the module `ray`, or None without an address.

    The address is that of the cluster's head, `auto` for the cluster of this machine, or `local` to start one here.

    Raises:
        MissingDependency: Ray is not installed.
        UsageError: no cluster answers at the address.
    """
    if address is None:
        yield None
        return
    try:
        import ray
    except ImportError:
        raise MissingDependency("a Ray cluster needs Ray: pip install 'knowgap[ray]'") from None
    connected = ray.is_initialized()
    if not connected:
        try:
            head = urlsplit(address if "://" in address else f"//{address}")
            if head.port is not None:  # Ray would wait for minutes if no one listens
                socket.create_connection((head.hostname or "", head.port), _SECONDS).close()
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(f"no Ray cluster at {address!r}: {shorten(error, 200)}") from error
    try:
        yield ray
    finally:
        if not connected:
            ray.shutdown()


@contextmanager
def connect(address: str, tracker: UsageTracker, lm_cache: Path) -> Iterator[Cluster]:
    """Connect to a cluster, yield a function that publishes a program to its workers, and disconnect at the end.

    That function takes a function that makes the program from a retriever; the folder of the index or the name of a
    retriever from outside (None for a program without one); the arguments of `as_retriever`; and the language model. It
    returns a function that takes a question and the ids of the passages to search, and has a worker answer.

    The address is that of the cluster's head, `auto` for this machine's cluster, or `local` to start one here. The
    tracker counts the calls of the workers; `lm_cache` is the folder in which DSPy caches the model's answers.

    Raises:
        MissingDependency: Ray is not installed.
        UsageError: no cluster answers at the address.
    """
    with ray_cluster(address) as ray:
        task: Any = ray.remote(max_retries=5, retry_exceptions=False)(_answer)

        def publish(
            make_program: Callable[..., Program], index: Path | str | None, opening: dict[str, Any], lm: Any
        ) -> Ask:
            folder = str(index.resolve()) if isinstance(index, Path) else index
            recipe = ray.put((make_program, folder, opening, lm, str(lm_cache.resolve())))
            key = uuid.uuid4().hex

            def ask(question: str, ids: Collection[str] | None) -> dspy.Prediction:
                prediction, spent = ray.get(task.remote(key, [recipe], question, ids))
                tracker.add(Usage.model_validate(spent))
                return prediction

            return ask

        yield publish


_programs: dict[str, tuple[Program, Any]] = {}
_indexes: dict[str, Any] = {}


def _answer(key: str, recipe: list[Any], question: str, ids: Collection[str] | None) -> tuple[Any, dict[str, Any]]:
    """Answer one question in a worker; the recipe is in a list so that Ray fetches it only when it is needed."""
    if key not in _programs:
        import ray

        _programs[key] = _make(*ray.get(recipe[0]))
    program, lm = _programs[key]
    tracker = UsageTracker()
    with dspy.context(lm=lm), without_history(), track_usage(tracker):
        prediction = ask_among(program, program.retriever, question, ids)
    return prediction, tracker.usage.model_dump()


def _make(
    make_program: Any, folder: str | None, opening: dict[str, Any], lm: Any, lm_cache: str
) -> tuple[Program, Any]:
    from knowgap.lms import quiet_dspy
    from knowgap.retrieval.index.engines import as_retriever

    quiet_dspy(lm_cache if Path(lm_cache).is_dir() else None)
    if folder is not None and folder not in _indexes:
        _indexes[folder] = as_retriever(folder, **opening)
    return make_program(retriever=_indexes[folder] if folder else None), lm
