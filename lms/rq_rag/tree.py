"""Tree decoding of RQ-RAG: one transcript, whose branches share their prefixes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from knowgap.lms.local.batches import pad_rows
from knowgap.lms.rq_rag.layout import TranscriptLayout
from knowgap.lms.rq_rag.prefix_cache import Batch, Segment, cache_of
from knowgap.retrieval.passage import Passage


class Written(NamedTuple):
    """What the model wrote after a control token.

    Attributes:
        text: a query or an answer; empty if it cannot be read.
        logprobs: natural log-probabilities of the tokens that the model chose, the end included.
        tokens_read: tokens that the model read for this text and had not read before.
        problem: why the text cannot be read; empty if it can be.
        cut: whether it ended at the limit of tokens.
    """

    text: str
    logprobs: tuple[float, ...]
    tokens_read: int
    problem: str = ""
    cut: bool = False


@dataclass
class TokenCounts:
    """Tokens that a model computed.

    Attributes:
        read: tokens of prompts and evidence.
        written: tokens of queries and answers, with their control tokens.
        padding: padding, since rows of a batch differ in length.
    """

    read: int = 0
    written: int = 0
    padding: int = 0


@dataclass
class _Node:
    """A node of the tree.

    Attributes:
        ids: all tokens from the beginning of the transcript.
        known: the last segment whose states are known; its path covers the first tokens of `ids`.
    """

    ids: list[int]
    known: Segment | None = None

    @property
    def pending(self) -> list[int]:
        """The tokens that the model has not read yet."""
        return self.ids[self.known.length if self.known else 0 :]


@dataclass
class _Row:
    """A branch being written: its tokens from the control token on, and the most it may have."""

    path: str
    action: str
    node: _Node
    ids: list[int]
    limit: int
    logprobs: list[float] = field(default_factory=list)
    states: list[tuple[Any, Any]] = field(default_factory=list)


class TranscriptTree:
    """One question's transcript as a tree: at every node, each action can be forced by its control token.

    With `share`, common prefixes are computed once: a node keeps the keys and values of its own tokens, and branches
    are written together in batches. Without it, each branch is computed from the beginning, one by one. Both write the
    same.

    Args:
        model: a causal model of Transformers, in evaluation mode.
        layout: the layout of the transcript.
        prompt: the ids up to the first control token.
        share: compute common prefixes once, which requires `can_share`.
        max_new_tokens: the most tokens of a query or an answer.
        max_length: the most tokens of a whole path; evidence that does not fit is left out.
        batch_size: branches that are written together.
        lock: held while the model computes.

    Attributes:
        counts: the tokens that the model computed so far.
    """

    def __init__(
        self,
        model: Any,
        layout: TranscriptLayout,
        prompt: Sequence[int],
        *,
        share: bool = True,
        max_new_tokens: int = 256,
        max_length: int = 4096,
        batch_size: int = 16,
        lock: AbstractContextManager[Any] | None = None,
    ):
        self.model, self.layout, self.share = model, layout, share
        self.max_new_tokens, self.max_length, self.batch_size = max_new_tokens, max_length, batch_size
        self.counts, self._lock = TokenCounts(), lock or nullcontext()
        self._nodes = {"": _Node(list(prompt))}

    def read(self, path: str, passages: Sequence[Passage]) -> int:
        """Append what the query of a node found; returns how many of the passages fit into the transcript."""
        node = self._nodes[path]
        room = self.max_length - len(node.ids) - self.max_new_tokens
        count, evidence = len(passages), self.layout.evidence(passages)
        while count and len(evidence) > room:
            count -= 1
            evidence = self.layout.evidence(passages[:count])
        node.ids += evidence
        return count

    def write(self, branches: Sequence[tuple[str, str]]) -> list[Written]:
        """Write a query or an answer at nodes; a query makes a child, whose path is its parent's and the action.

        Args:
            branches: the path of a node ("", "rewrite", "rewrite/decompose", …) and an action of `ACTION_TOKENS`.
        """
        import torch

        rows = [self._row(path, action) for path, action in branches]
        with self._lock, torch.inference_mode():
            reading = self._read_pending(row.node for row in rows)
            for begin in range(0, len(rows), self.batch_size):
                together = [row for row in rows[begin : begin + self.batch_size] if row.limit > 0]
                if self.share and together:
                    self._write_together(together)
                for row in together if not self.share else ():
                    reading[id(row.node)] = reading.get(id(row.node), 0) + self._write_alone(row)
        return [self._finish(row, reading.pop(id(row.node), 0)) for row in rows]

    def _row(self, path: str, action: str) -> _Row:
        node = self._nodes[path]
        limit = min(self.max_new_tokens, self.max_length - len(node.ids) - 1)
        return _Row(path, action, node, [self.layout.actions[action]], limit)

    def _read_pending(self, nodes: Iterable[_Node]) -> dict[int, int]:
        """Let the model read the pending tokens of nodes; return their number by the node's `id()`."""
        pending = [node for node in {id(node): node for node in nodes}.values() if node.pending] if self.share else []
        for begin in range(0, len(pending), self.batch_size):
            together = pending[begin : begin + self.batch_size]
            batch, tokens = Batch(self.model, [node.known for node in together]), [node.pending for node in together]
            self._feed(batch, tokens)
            for row, (node, ids) in enumerate(zip(together, tokens, strict=True)):
                node.known = Segment(node.known, ids, batch.states(row, len(ids)))
                self.counts.read += len(ids)
        return {id(node): len(node.known.ids) for node in pending if node.known}

    def _feed(self, batch: Batch, rows: Sequence[Sequence[int]]) -> Any:
        """Let each row of a batch read further tokens; return the logits after the last column."""
        tokens, real = pad_rows(rows, device=self.model.device)
        self.counts.padding += tokens.numel() - sum(map(len, rows))
        return batch.feed(tokens, real)

    def _write_together(self, rows: list[_Row]) -> None:
        """Write branches in one batch, from which a finished branch is removed."""
        import torch

        batch = Batch(self.model, [row.node.known for row in rows])
        while rows:
            logits = self._feed(batch, [row.ids[-1:] for row in rows])
            self.counts.written += len(rows)
            going = [place for place, row in enumerate(rows) if self._add_token(row, logits[place])]
            for place in {*range(len(rows))} - {*going}:
                rows[place].states = batch.states(place, len(rows[place].ids) - 1)
            if len(going) < len(rows):
                rows = [rows[place] for place in going]
                if rows:
                    batch.keep(torch.tensor(going, device=self.model.device))

    def _write_alone(self, row: _Row) -> int:
        """Write a branch from the beginning of its transcript; returns how many tokens were read for it."""
        import torch

        tokens, options = [*row.node.ids, *row.ids], {}
        read = len(row.node.ids)
        while True:
            given = torch.tensor([tokens], device=self.model.device)
            output = self.model(input_ids=given, use_cache=True, **options)
            self.counts.written += 1
            if not self._add_token(row, output.logits[0, -1]):
                self.counts.read += read
                return read
            name, cache = cache_of(output)
            tokens = row.ids[-1:] if name else [*row.node.ids, *row.ids]
            read += 0 if name else len(tokens) - 1
            options = {name: cache} if name else {}

    def _add_token(self, row: _Row, logits: Any) -> bool:
        """Add the most likely token; return whether the branch continues."""
        import torch

        logprobs = logits.float().log_softmax(-1)
        token = int(torch.argmax(logprobs))
        row.ids.append(token)
        row.logprobs.append(float(logprobs[token]))
        return token not in self.layout.stops and len(row.logprobs) < row.limit

    def _finish(self, row: _Row, tokens_read: int) -> Written:
        """Read what a branch wrote; make a node for a query."""
        if row.limit <= 0:
            return Written("", (), tokens_read, f"no room within {self.max_length} tokens", cut=True)
        text, problem = self.layout.read(row.ids[1:])
        if not problem and row.action != "answer":
            ids = [*row.ids[:-1], self.layout.end]
            known = Segment(row.node.known, ids[:-1], row.states) if self.share else None
            self._nodes[f"{row.path}/{row.action}" if row.path else row.action] = _Node([*row.node.ids, *ids], known)
        return Written(text, tuple(row.logprobs), tokens_read, problem, cut=row.ids[-1] not in self.layout.stops)
