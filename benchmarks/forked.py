"""Run work in a forked process: what it returned and how it ended, or end it at a given moment; and work to run."""

from __future__ import annotations

import functools
import os
import pickle
import re
import signal
import threading
import traceback
import warnings
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def in_fork(work: Callable[[], Any], *, kill_after: float | None = None) -> tuple[str, Any]:
    """Run work in a forked process, which shares what this one has imported.

    Args:
        work: returns something that can be pickled.
        kill_after: seconds after which the process is killed (SIGKILL) if it still runs.

    Returns:
        "value" and what it returned; "refused" and the message of an error that the command line prints as one line;
        "traceback" and the traceback of another error, or the signal that ended it; "killed" and None.
    """
    from knowgap.errors import KnowgapError

    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with open(os.devnull, "wb") as nothing:  # the log of what it does
            os.dup2(nothing.fileno(), 2)
        warnings.simplefilter("ignore")
        try:
            outcome = "value", work()
        except (KnowgapError, OSError) as error:
            outcome = "refused", str(error)
        except BaseException:  # whatever damage leads to
            outcome = "traceback", traceback.format_exc(limit=-4)
        with os.fdopen(writing, "wb") as file:
            pickle.dump(outcome, file)
        os._exit(0)
    os.close(writing)
    timer = threading.Timer(kill_after or 0, os.kill, (child, signal.SIGKILL))
    if kill_after is not None:
        timer.start()
    with os.fdopen(reading, "rb") as file:
        content = file.read()
    timer.cancel()
    _, status = os.waitpid(child, 0)
    if content and not os.WIFSIGNALED(status):
        return pickle.loads(content)
    return ("killed", None) if kill_after is not None else ("traceback", f"ended by signal {os.WTERMSIG(status)}")


def value_of(work: Callable[[], Any]) -> Any:
    """What work returns in a forked process, where it has to return something."""
    outcome, value = in_fork(work)
    assert outcome == "value", value
    return value


@functools.cache
def sample() -> tuple[Any, Any]:
    """The sample, and an index of its passages in memory; forked processes share them."""
    from knowgap.compiling.data import load_dataset
    from knowgap.retrieval import BM25Index

    dataset = load_dataset("sample")
    return dataset, BM25Index.from_passages(dataset.corpus)


def rag_over_sample(questions: int) -> tuple[Any, Any]:
    """A program over the sample's passages, and some of its questions."""
    from knowgap.programs.baselines.rag import RAG

    dataset, index = sample()
    return RAG(index), dataset.questions("dev", questions)


def count_words(texts: Sequence[str]) -> Any:
    """An encoder that needs no model: counts of words, each in the column of its hash."""
    vectors = np.full((len(texts), 64), 0.01)
    for row, text in enumerate(texts):
        for word in re.findall(r"\w+", text.lower()):
            vectors[row, zlib.crc32(word.encode()) % 64] += 1
    return vectors
