"""RQ-RAG: grow a tree of refined queries and select among the answers of its trajectories."""

from __future__ import annotations

import functools
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import dspy

from knowgap.lms.transcripts import TranscriptAdapter
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer
from knowgap.programs.logprobs import ask_for_tokens
from knowgap.programs.passages import distinct
from knowgap.programs.replies.text import probability_of, text_of
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Answered, Judged, Refined, Selected, Stopped
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.signatures import UNKNOWN, AnswerWithConfidence, DecomposeQuery, DisambiguateQuery, RewriteQuery
from knowgap.signatures.rq_rag import Searched

_ACTIONS = ("rewrite", "decompose", "disambiguate")


@dataclass(frozen=True)
class Trajectory:
    """A path from the root of the tree: queries, what each found, and the answer from all of it.

    Attributes:
        path: the actions from the root, joined by "/"; empty at the root.
        searches: one query per action with the passages that it found.
        generated: log-probabilities of the tokens of queries and answer; None if some are unknown.
        answer: None if not asked for yet, empty if none could be read.
        answer_logprobs: log-probabilities of the tokens of the answer; None if unknown.
        stated: the probability that the model states for its answer, 0 to 1.
    """

    path: str = ""
    searches: tuple[tuple[str, tuple[Passage, ...]], ...] = ()
    generated: tuple[float, ...] | None = ()
    answer: str | None = None
    answer_logprobs: tuple[float, ...] | None = None
    stated: float = 0.0

    @property
    def passages(self) -> list[Passage]:
        """What all queries found, each passage once, in the order in which they were found."""
        return distinct(passage for _, found in self.searches for passage in found)

    @property
    def searched(self) -> list[Searched]:
        """The queries, each with the numbers from 1 that its passages have in `passages`."""
        numbers = {passage.id: number for number, passage in enumerate(self.passages, start=1)}
        return [Searched(query=query, found=[numbers[p.id] for p in found]) for query, found in self.searches]

    @property
    def perplexity(self) -> float | None:
        """PPL: exp of the negative mean log-probability of all generated tokens, at least 1; None if unknown."""
        return math.exp(min(700.0, -sum(self.generated) / len(self.generated))) if self.generated else None

    @property
    def confidence(self) -> float:
        """Conf: the sum of the answer's log-probabilities, here as a probability; the stated one if unknown."""
        return self.stated if self.answer_logprobs is None else math.exp(sum(self.answer_logprobs))

    def to_dict(self) -> dict[str, Any]:
        """The trajectory as a JSON-ready mapping."""
        facts = {"path": self.path or "direct", "queries": [query for query, _ in self.searches]}
        facts |= {"answer": self.answer or "", "confidence": self.confidence, "perplexity": self.perplexity}
        return facts | {"passages": [passage.id for passage in self.passages]}


class Written(NamedTuple):
    """A query or an answer.

    Attributes:
        text: empty if it cannot be read.
        logprobs: log-probabilities of the tokens of the text; None if they are unknown.
        stated: the confidence that the model states, 0 to 1.
    """

    text: str
    logprobs: tuple[float, ...] | None
    stated: float


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

    def __init__(self, retriever: RetrieverLike | None = None, *, generator: dspy.BaseLM | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.generator = generator
        self.rewrite = dspy.Predict(RewriteQuery)
        self.decompose = dspy.Predict(DecomposeQuery)
        self.disambiguate = dspy.Predict(DisambiguateQuery)
        self.answer = dspy.Predict(AnswerWithConfidence)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question` by the best trajectory.

        The prediction adds `confidence` (0 to 1), `path` and `queries` of the selected trajectory, `measure` ("token
        log-probabilities" or "stated confidence"), `answers` of all trajectories, and `leaves`: path, queries, answer,
        confidence, perplexity and passage ids of each.
        """
        level, nodes = [Trajectory()], list[Trajectory]()  # the root retrieves nothing
        for iteration in range(1, self.depth + 1):  # generate, retrieve, generate, retrieve, … (B.2)
            self.begin_iteration(iteration)
            if len(level) > self.beam_width:
                level = self._answer_all(question, level)
            nodes += level
            level = self._retrieve_for(self._refine(question, self._best(level)))
        self.begin_iteration(self.depth + 1)
        leaves = self._answer_all(question, [*nodes, *level])  # … and answer
        self.record(Stopped(reason="depth" if level else "no query"))
        return self._select(leaves)

    def _refine(self, question: str, nodes: Sequence[Trajectory]) -> list[Trajectory]:
        """The children of nodes, without passages: one for each action whose query could be read."""
        actions = _ACTIONS if self.actions == "all" else (self.actions,)
        asked = [(node, action) for node in nodes for action in actions]

        def refine(node: Trajectory, action: str, path: str) -> Trajectory | None:
            said = self._write(question, node, action)
            if not (query := " ".join(said.text.split())):
                return None
            self.record(Refined(action=action, query=query))
            return Trajectory(path, (*node.searches, (query, ())), _generated(node, said))

        paths = [f"{node.path}/{action}".strip("/") for node, action in asked]
        tasks = [functools.partial(refine, *each, path) for each, path in zip(asked, paths, strict=True)]
        return [child for child in run_concurrently(tasks, paths) if child is not None]

    def _retrieve_for(self, children: Sequence[Trajectory]) -> list[Trajectory]:
        """The children with what their newest queries find."""
        queries = [node.searches[-1][0] for node in children]
        found = self.retrieve(queries, self.top_k) if children else []
        return [
            replace(node, searches=(*node.searches[:-1], (query, tuple(hit.passage for hit in hits))))
            for node, query, hits in zip(children, queries, found, strict=True)
        ]

    def _answer_all(self, question: str, nodes: Sequence[Trajectory]) -> list[Trajectory]:
        """All nodes with their answers."""
        asked = [node for node in nodes if node.answer is None]

        def answer(node: Trajectory) -> Trajectory:
            said = self._write(question, node, "answer")
            more = {"generated": _generated(node, said), "answer_logprobs": said.logprobs, "stated": said.stated}
            leaf = replace(node, answer=said.text, **more)
            if leaf.answer:
                ids = [passage.id for passage in leaf.passages]
                self.record(Answered(answer=leaf.answer, confidence=leaf.confidence, passages=ids))
            return leaf

        tasks = [functools.partial(answer, node) for node in asked]
        leaves = run_concurrently(tasks, [node.path or "direct" for node in asked])
        by_path = {leaf.path: leaf for leaf in leaves}
        return [by_path.get(node.path, node) for node in nodes]

    def last_answer(self, question: str, passages: list[Passage]) -> dspy.Prediction:
        """As for every program; a trained generator answers after a search with the question."""
        if self.generator is None:
            return super().last_answer(question, passages)
        found = Trajectory("rewrite", ((question, tuple(passages)),)) if passages else Trajectory()
        return self.conclude(self._write(question, found, "answer", last=True).text, passages)

    def _write(self, question: str, node: Trajectory, action: str, **options: Any) -> Written:
        """Ask the model at a node, which sees the queries of the path and what each found (equation 2)."""
        field = "answer" if action == "answer" else "query"
        inputs: dict[str, Any] = {"question": question, "searched": node.searched, "passages": node.passages}
        inputs |= {"style": self.wording} if field == "answer" else {}
        predictor, form = getattr(self, action), {}
        if self.generator is not None:
            inputs["lm"] = self.generator
            form["adapter"] = TranscriptAdapter([*filter(None, node.path.split("/")), action], self.wording)
        with dspy.context(**form):
            reply = ask_for_tokens(self, predictor, **inputs, **options)
        tokens = reply.tokens_of(field, headed=self.generator is None)
        logprobs = None if tokens is None else tuple(token.logprob for token in tokens)
        return Written(text_of(reply.output, field), logprobs, probability_of(reply.output))

    def _best(self, level: list[Trajectory]) -> list[Trajectory]:
        """The `beam_width` best nodes of a level, in the order of their paths."""
        weights = _weights(self.strategy, level)[0] if len(level) > self.beam_width else [0.0] * len(level)
        best = sorted(range(len(level)), key=lambda i: (-weights[i], i))[: self.beam_width]
        return [level[i] for i in sorted(best)]

    def _select(self, nodes: Sequence[Trajectory]) -> dspy.Prediction:
        """Answer with the trajectory that the strategy selects; the longest, then the earliest among equal ones."""
        leaves = [node for node in nodes if node.answer]
        weights, measured = _weights(self.strategy, leaves)
        if not measured:
            leaves = [replace(leaf, generated=None, answer_logprobs=None) for leaf in leaves]
            self.record(Judged(what="token log-probabilities", value=False, reason="stated confidence instead"))
        depths = [len(leaf.searches) for leaf in leaves]
        candidates: Sequence[int] = range(len(leaves))
        scores = {leaf.path or "direct": leaf.confidence for leaf in leaves}
        if self.strategy == "perplexity" and measured:
            scores = {leaf.path or "direct": -weight for leaf, weight in zip(leaves, weights, strict=True)}
        elif self.strategy == "ensemble":
            groups: dict[str, list[int]] = {}
            for i, leaf in enumerate(leaves):
                groups.setdefault(_normalised(leaf.answer or ""), []).append(i)
            sums = [(round(sum(weights[i] for i in g), 9), max(depths[i] for i in g), g) for g in groups.values()]
            candidates = max(sums, key=lambda each: each[:2], default=(0, 0, []))[2]
            scores = {leaves[g[0]].answer or "": sum(leaves[i].confidence for i in g) for g in groups.values()}
        best = max(candidates, key=lambda i: (round(weights[i], 9), depths[i], -i), default=None)
        chosen = Trajectory() if best is None else leaves[best]
        self.record(Selected(strategy=self.strategy, answer=chosen.answer or UNKNOWN, scores=scores))
        return self.conclude(
            chosen.answer or UNKNOWN,
            chosen.passages,
            confidence=chosen.confidence,
            path=chosen.path or "direct",
            queries=[query for query, _ in chosen.searches],
            measure="token log-probabilities" if measured else "stated confidence",
            answers=[leaf.answer for leaf in leaves],
            leaves=[leaf.to_dict() for leaf in leaves],
        )


def _generated(node: Trajectory, said: Written) -> tuple[float, ...] | None:
    """Log-probabilities of all values that the node's path and its next reply generated; None if some are unknown."""
    return None if node.generated is None or said.logprobs is None else (*node.generated, *said.logprobs)


def _weights(strategy: str, leaves: Sequence[Trajectory]) -> tuple[list[float], bool]:
    """One weight per answered trajectory, more is better, and whether token log-probabilities gave them.

    Weights are negative perplexities, or confidences scaled to a maximum of 1, since the probability of a long answer
    may be too small for a float. If log-probabilities are unknown for one trajectory, all are stated confidences.
    """
    perplexities = [leaf.perplexity for leaf in leaves if leaf.perplexity is not None]
    logprobs = [sum(leaf.answer_logprobs) for leaf in leaves if leaf.answer_logprobs is not None]
    if strategy == "perplexity" and len(perplexities) == len(leaves):
        return [-value for value in perplexities], True
    if strategy != "perplexity" and len(logprobs) == len(leaves):
        return [math.exp(value - max(logprobs)) for value in logprobs], True
    return [leaf.stated for leaf in leaves], False


def _normalised(answer: str) -> str:
    """The answer without case, punctuation and English articles, as in the answer metrics, unless nothing is left."""
    letters = "".join(char for char in answer.casefold() if not unicodedata.category(char).startswith("P"))
    return " ".join(word for word in letters.split() if word not in ("a", "an", "the")) or answer
