"""RQ-RAG: grow a tree of refined queries and select among the answers of its trajectories."""

from __future__ import annotations

import functools
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import dspy

from knowgap.lms.transcripts import TranscriptAdapter
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer
from knowgap.programs.logprobs import value_tokens
from knowgap.programs.passages import distinct
from knowgap.programs.replies.text import text_of
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Answered, Judged, Queried, Reasoned, Stopped
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.signatures import UNKNOWN, AnswerWithConfidence, DecomposeQuery, DisambiguateQuery, RewriteQuery
from knowgap.signatures.rq_rag import Searched

_ACTIONS = ("rewrite", "decompose", "disambiguate")


@dataclass(frozen=True)
class Trajectory:
    """A path from the root of the tree: queries, what each found, and the answer from all of it.

    Attributes:
        path: the actions from the root, joined by "/"; `direct` at the root.
        queries: one for each action.
        found: the passages that each query found.
        query_logprobs: log-probabilities of the tokens of all queries; None if some are unknown.
        answer: None if not asked for yet, empty if none could be read.
        answer_logprobs: log-probabilities of the tokens of the answer; None if unknown.
        stated: the probability that the model states for its answer, 0 to 1.
    """

    path: str = "direct"
    queries: tuple[str, ...] = ()
    found: tuple[tuple[Passage, ...], ...] = ()
    query_logprobs: tuple[float, ...] | None = ()
    answer: str | None = None
    answer_logprobs: tuple[float, ...] | None = None
    stated: float = 0.0

    def path_to(self, action: str) -> str:
        """The path of a child."""
        return f"{self.path}/{action}" if self.queries else action

    @property
    def passages(self) -> list[Passage]:
        """What all queries found, each passage once, in the order in which they were found."""
        return distinct(passage for found in self.found for passage in found)

    @property
    def searched(self) -> list[Searched]:
        """The queries, each with the numbers from 1 that its passages have in `passages`."""
        numbers = {passage.id: number for number, passage in enumerate(self.passages, start=1)}
        pairs = zip(self.queries, self.found, strict=True)
        return [Searched(query=query, found=[numbers[passage.id] for passage in found]) for query, found in pairs]

    @property
    def perplexity(self) -> float | None:
        """PPL: exp of the negative mean log-probability of all generated tokens, at least 1; None if unknown."""
        if self.query_logprobs is None or self.answer_logprobs is None:
            return None
        generated = self.query_logprobs + self.answer_logprobs
        return math.exp(min(700.0, -sum(generated) / len(generated)))

    @property
    def confidence(self) -> float:
        """Conf: the sum of the answer's log-probabilities, here as a probability; the stated one if unknown."""
        return self.stated if self.answer_logprobs is None else math.exp(sum(self.answer_logprobs))


class RQRAG(Program):
    """Grow a tree of refined queries, answer at its nodes, select among the answers.

    Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", section 2.3, figure 8, appendices
    B.2 and B.4. Departures: docs/methods/rq_rag.md. At depth 2, there are 1 + 3 + 9 = 13 answers, for 25 calls (3 of
    them in sequence) and 12 retrievals. The upper bound is the metric `upper_bound` on the prediction's `answers`.

    Args:
        generator: a language model that was trained on transcripts (`knowgap train rq-rag`), in this process or behind
            a server, which is shown no demonstrations; None asks the configured one by prompts.

    >>> import knowgap
    >>> knowgap.RQRAG(depth=4).depth
    4
    """

    name = "rq_rag"
    calls = "25"
    adds: ClassVar = {"confidence": None, "path": "", "queries": [], "measure": "", "answers": []}
    part_names = ("retriever", "generator")
    sub_models: ClassVar = {"generator": "generator"}
    presets: ClassVar = {
        "open_domain": {"depth": 2},
        "multiple_choice": {"depth": 2, "style": "choice"},
        "multi_hop": {"depth": 2},  # HotpotQA
        "multi_hop_deep": {"depth": 4},  # 2WikiMultihopQA and MuSiQue
    }

    depth = Integer(2, "refinements on the longest path (appendix B.2)", low=0, high=5)
    top_k = Integer(3, "passages retrieved per query (appendix B.4)", low=1, high=20)
    actions = Choice("all", "refine queries in all three ways, or in one (figure 4b)", choices=("all", *_ACTIONS))
    strategy = Choice("ensemble", "how the answer is chosen (2.3)", choices=("perplexity", "confidence", "ensemble"))
    beam_width = Integer(27, "nodes of a level that are refined at most, best first (B.2)", low=1, high=81)

    def __init__(
        self, retriever: RetrieverLike | None = None, *, generator: dspy.BaseLM | None = None, **hyperparameters: Any
    ):
        super().__init__(retriever, **hyperparameters)
        self.generator = generator
        self.rewrite = dspy.Predict(RewriteQuery)
        self.decompose = dspy.Predict(DecomposeQuery)
        self.disambiguate = dspy.Predict(DisambiguateQuery)
        self.answer = dspy.Predict(AnswerWithConfidence)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` by the best trajectory.

        The prediction adds `confidence` (0 to 1), `path` and `queries` of the selected trajectory, `measure` ("token
        log-probabilities" or "stated confidence"), and `answers` of all trajectories.
        """
        level, nodes = [Trajectory()], list[Trajectory]()  # the root: the question, for which nothing is retrieved
        for iteration in range(1, self.depth + 1):  # generate, retrieve, generate, retrieve, … (B.2)
            self.begin_iteration(iteration)
            if len(level) > self.beam_width:  # its best nodes are found by their answers
                level = self._answer_all(question, level)
            nodes += level
            level = self._refine(question, self._best(level))
        self.begin_iteration(self.depth + 1)
        leaves = self._answer_all(question, [*nodes, *level], end=True)  # … and answer, at every node
        self.record(Stopped(reason="depth" if level else "no query"))
        return self._select(leaves)

    def _refine(self, question: str, nodes: Sequence[Trajectory]) -> list[Trajectory]:
        """The children of nodes with what they find: one for each action whose query could be read."""
        actions = _ACTIONS if self.actions == "all" else (self.actions,)
        asked = [(node, action) for node in nodes for action in actions]
        tasks = [functools.partial(self._write, question, node, action) for node, action in asked]
        written = run_concurrently(tasks, [node.path_to(action) for node, action in asked])
        children = [child for child in written if child.queries[-1]]
        found = self.retrieve([child.queries[-1] for child in children], self.top_k) if children else []
        passages = [tuple(hit.passage for hit in hits) for hits in found]
        return [replace(child, found=(*child.found, new)) for child, new in zip(children, passages, strict=True)]

    def _answer_all(self, question: str, nodes: Sequence[Trajectory], *, end: bool = False) -> list[Trajectory]:
        """The nodes with their answers; at the `end` of the question, the last one may be its last call."""
        tasks = [functools.partial(self._write, question, node, "answer", end and node is nodes[-1]) for node in nodes]
        return run_concurrently(tasks, [node.path for node in nodes])

    def _write(self, question: str, node: Trajectory, action: str, last: bool = False) -> Trajectory:
        """What the model writes at a node, which sees the queries of the path and what each found (equation 2).

        Returns:
            The node with its answer, or a child with one more query; the text is empty if it cannot be read.
        """
        if action == "answer" and node.answer is not None:
            return node
        field = "answer" if action == "answer" else "query"
        inputs: dict[str, Any] = {"question": question, "searched": node.searched, "passages": node.passages}
        inputs |= {"style": self.wording} if field == "answer" else {}
        form = {}
        if self.generator is not None:
            inputs["lm"] = self.generator
            form["adapter"] = TranscriptAdapter([*node.path.split("/")[: len(node.queries)], action], self.wording)
        with dspy.context(**form):
            output = self.ask(getattr(self, action), **inputs, config={"logprobs": True}, last=last)
        text, tokens = text_of(output, field), value_tokens(output, field, headed=self.generator is None)
        logprobs = None if tokens is None else tuple(token.logprob for token in tokens)
        if field == "query":
            known = None if node.query_logprobs is None or logprobs is None else node.query_logprobs + logprobs
            query = " ".join(text.split())
            if query:
                self.record(Queried(how=action, queries=[query]))
            return Trajectory(node.path_to(action), (*node.queries, query), node.found, known)
        stated = getattr(output, "confidence", None) or 0.0
        leaf = replace(node, answer=text, answer_logprobs=logprobs, stated=stated)
        if text:
            ids = [passage.id for passage in leaf.passages]
            self.record(Answered(answer=text, confidence=leaf.confidence, passages=ids))
        return leaf

    def last_answer(self, question: str, passages: list[Passage]) -> dspy.Prediction:
        """As for every program; a trained generator answers after a search with the question."""
        if self.generator is None:
            return super().last_answer(question, passages)
        found = Trajectory("rewrite", (question,), (tuple(passages),)) if passages else Trajectory()
        return self.conclude(self._write(question, found, "answer", last=True).answer or "", passages)

    def _best(self, level: list[Trajectory]) -> list[Trajectory]:
        """The `beam_width` best nodes of a level, in the order of their paths."""
        weights, _ = _weights(self.strategy, level)
        best = sorted(range(len(level)), key=lambda i: (-weights[i], i))[: self.beam_width]
        return [level[i] for i in sorted(best)]

    def _select(self, nodes: Sequence[Trajectory]) -> dspy.Prediction:
        """Answer with the trajectory that the strategy selects; the longest, then the earliest among equal ones."""
        leaves = [node for node in nodes if node.answer]
        weights, measured = _weights(self.strategy, leaves)
        if not measured:
            leaves = [replace(leaf, answer_logprobs=None) for leaf in leaves]
            self.record(Judged(what="token log-probabilities", value=False))
        answers = [leaf.answer or "" for leaf in leaves]
        groups: dict[str, list[int]] = {}  # what competes as one: the trajectories of an answer, or each by itself
        for i, (leaf, answer) in enumerate(zip(leaves, answers, strict=True)):
            groups.setdefault(_normalised(answer) if self.strategy == "ensemble" else leaf.path, []).append(i)

        def rank(group: list[int]) -> tuple[float, int, int]:
            weight = round(sum(weights[i] for i in group), 9)
            return weight, max(len(leaves[i].queries) for i in group), -group[0]

        best = max(groups.values(), key=rank, default=[])
        chosen = leaves[max(best, key=lambda i: rank([i]))] if best else Trajectory()
        self.record(Reasoned(what=f"answer selected by {self.strategy}", text=chosen.answer or UNKNOWN))
        return self.conclude(
            chosen.answer or UNKNOWN,
            chosen.passages,
            confidence=chosen.confidence,
            path=chosen.path,
            queries=list(chosen.queries),
            measure="token log-probabilities" if measured else "stated confidence",
            answers=answers,
        )


def _weights(strategy: str, leaves: Sequence[Trajectory]) -> tuple[list[float], bool]:
    """One weight per answered trajectory, more is better, and whether token log-probabilities gave them.

    Weights are negative perplexities, or confidences scaled to a maximum of 1, since the probability of a long answer
    may be too small for a float. If log-probabilities are unknown for one trajectory, or there is none, all are stated
    confidences.
    """
    perplexities = [leaf.perplexity for leaf in leaves if leaf.perplexity is not None]
    logprobs = [sum(leaf.answer_logprobs) for leaf in leaves if leaf.answer_logprobs is not None]
    if strategy == "perplexity" and 0 < len(perplexities) == len(leaves):
        return [-value for value in perplexities], True
    if strategy != "perplexity" and 0 < len(logprobs) == len(leaves):
        return [math.exp(value - max(logprobs)) for value in logprobs], True
    return [leaf.stated for leaf in leaves], False


def _normalised(answer: str) -> str:
    """The answer without case, punctuation and English articles, as in the answer metrics, unless nothing is left."""
    letters = "".join(char for char in answer.casefold() if not unicodedata.category(char).startswith("P"))
    return " ".join(word for word in letters.split() if word not in ("a", "an", "the")) or answer
