"""The interface of a model that was trained to write a transcript branch by branch, and how a program calls it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from knowgap.lms.cancelling import check_cancelled
from knowgap.lms.metering import Usage
from knowgap.programs.passages import knowledge_tokens
from knowgap.programs.trace.recorder import current_recorder
from knowgap.retrieval.passage import Passage


class Written(Protocol):
    """A query or an answer that a generator wrote."""

    @property
    def text(self) -> str:
        """A query or an answer; empty if it cannot be read."""
        ...

    @property
    def logprobs(self) -> tuple[float, ...]:
        """Natural log-probabilities of the tokens that the model chose."""
        ...

    @property
    def problem(self) -> str:
        """Why the text cannot be read; empty if it can be."""
        ...

    @property
    def cut(self) -> bool:
        """Whether it ended at the limit of tokens."""
        ...

    @property
    def tokens_read(self) -> int:
        """Tokens that the model read for this text and had not read before."""
        ...


class Transcript(Protocol):
    """The transcript of one question, as a tree.

    A node is named by the actions of its queries: "" is the root, "rewrite/decompose" two steps below it.
    """

    def read(self, path: str, passages: Sequence[Passage]) -> int:
        """Append what the query of a node found; returns how many of the passages, best first, fit."""
        ...

    def write(self, branches: Sequence[tuple[str, str]], *, sample: bool = False) -> Sequence[Written]:
        """Write a query or the "answer" at each (path, action); a query makes a node."""
        ...

    def choose(self, paths: Sequence[str], letters: Sequence[str]) -> Sequence[Written]:
        """Answer at each node with the most likely of several lettered options."""
        ...


@runtime_checkable
class Generator(Protocol):
    """A model that writes transcripts, named by its folder or hub name; `knowgap.lms.TranscriptGenerator` is one."""

    name: str

    @property
    def digest(self) -> str:
        """A string that identifies the model."""
        ...

    def start(self, question: str, instruction: str) -> Transcript:
        """Begin the transcript of a question; `instruction` says how the answer should be worded."""
        ...


def write_branches(
    transcript: Transcript,
    branches: Sequence[tuple[str, str]],
    *,
    sample: bool = False,
    letters: Sequence[str] = (),
) -> list[tuple[Written, float]]:
    """Write at nodes of a transcript, each a path and an action; in one batch if the branches may run concurrently.

    With `letters`, each answer is the likeliest of these options; with `sample`, tokens are drawn.

    Returns:
        What was written for each, and the seconds that it took; branches of a batch take as long as the batch.
    """
    together = current_recorder().concurrent
    written: list[tuple[Written, float]] = []
    for group in [branches] if together and branches else [[branch] for branch in branches]:
        check_cancelled()
        started = time.perf_counter()
        if letters:
            replies = transcript.choose([path for path, _ in group], letters)
        else:
            replies = transcript.write(group, sample=sample)
        seconds = time.perf_counter() - started
        written += [(reply, seconds) for reply in replies]
    return written


def count_written(written: Written, seconds: float, passages: Sequence[Passage]) -> None:
    """Count what a generator wrote in the current branch as a call, and the passages before it as read."""
    recorder = current_recorder()
    recorder.count_read(passages)
    usage = Usage(
        calls=1,
        cut=int(written.cut),
        prompt_tokens=written.tokens_read,
        completion_tokens=len(written.logprobs),
    )
    recorder.tracker.add(usage)
    recorder.count_request(usage, seconds)
    recorder.cost.knowledge_tokens += knowledge_tokens(passages, recorder.model_texts)
    recorder.cost.unreadable += bool(written.problem)
