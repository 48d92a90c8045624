"""The interface of a model that was trained to write a transcript branch by branch, and how a program calls it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from knowgap.lms.cancelling import check_cancelled
from knowgap.lms.metering import Usage
from knowgap.programs.passages import knowledge_tokens
from knowgap.programs.trace.recorder import current_recorder
from knowgap.programs.trace.steps import Malformed, Rejected
from knowgap.retrieval.passage import Hit, Passage

if TYPE_CHECKING:
    from knowgap.programs.base import Program


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

    def write(self, branches: Sequence[tuple[str, str]]) -> Sequence[Written]:
        """Write a query or the "answer" at each (path, action); a query makes a node."""
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


class BranchReply(NamedTuple):
    """A query or an answer, as a model gave it.

    Attributes:
        text: empty if it cannot be read.
        logprobs: log-probabilities of all tokens of the text; None if they are unknown.
        stated: the confidence that the model states.
    """

    text: str
    logprobs: tuple[float, ...] | None
    stated: float = 0.0


Branch = tuple[str, Any, str]
"""The path of a node, the node itself with its `passages`, and what is written there: an action, or the "answer"."""


class Branches(Protocol):
    """What writes at the nodes of a question's tree."""

    def write(self, branches: Sequence[Branch]) -> Sequence[Callable[[], BranchReply]]:
        """For each branch, a function that is called within it, and returns its reply."""
        ...

    def read(self, path: str, query: str, hits: Sequence[Hit]) -> tuple[Passage, ...]:
        """Take what the query of a node found; returns the passages that later replies are written from."""
        ...


class PromptBranches:
    """Asks a language model at every node by itself; `ask` takes a node and an action."""

    def __init__(self, ask: Callable[[Any, str], BranchReply]):
        self._ask = ask

    def write(self, branches: Sequence[Branch]) -> list[Callable[[], BranchReply]]:
        """The call of each branch."""
        return [functools.partial(self._ask, node, action) for _, node, action in branches]

    def read(self, path: str, query: str, hits: Sequence[Hit]) -> tuple[Passage, ...]:
        """All passages."""
        return tuple(hit.passage for hit in hits)


class GeneratorBranches:
    """Lets a generator write at nodes; in one batch if the branches may run concurrently."""

    def __init__(self, program: Program, generator: Generator, question: str):
        self._program, self._transcript = program, generator.start(question, program.wording)

    def write(self, branches: Sequence[Branch]) -> list[Callable[[], BranchReply]]:
        """Write at all branches; the functions count what was written."""
        answering = all(action == "answer" for *_, action in branches)
        current_recorder().allot(len(branches), leave=int(not answering))
        made: list[Callable[[], BranchReply]] = []
        together = current_recorder().concurrent
        for group in [branches] if together and branches else [[branch] for branch in branches]:
            check_cancelled()
            started = time.perf_counter()
            written = self._transcript.write([(path, action) for path, _, action in group])
            seconds = time.perf_counter() - started
            for (_, node, action), each in zip(group, written, strict=True):
                made.append(functools.partial(self._reply, each, seconds, node, action))
        return made

    def _reply(self, written: Written, seconds: float, node: Any, action: str) -> BranchReply:
        count_written(written, seconds, node.passages)
        if written.problem:
            self._program.record(Malformed(act=action, problem=written.problem))
        return BranchReply(written.text, written.logprobs)

    def read(self, path: str, query: str, hits: Sequence[Hit]) -> tuple[Passage, ...]:
        """The passages that fit into the transcript."""
        found = tuple(hit.passage for hit in hits)
        if (room := self._transcript.read(path, found)) < len(found):
            left_out = [passage.id for passage in found[room:]]
            self._program.record(Rejected(what=query, why="no room in the transcript", passages=left_out))
        return found[:room]


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
