"""RQ-RAG: grow a tree of refined queries and select among the answers of its trajectories."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer
from knowgap.programs.logprobs import FieldLogprobs, ask_for_tokens
from knowgap.programs.outputs import clean_lines, probability_of, text_of
from knowgap.programs.reading.passage_numbering import distinct
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Answered, Judged, Refined, Rejected, Selected, Stopped
from knowgap.programs.trajectory import STRATEGIES, Selection, Trajectory, select_trajectory, trajectory_weights
from knowgap.retrieval.passage import Retriever
from knowgap.signatures import STYLES, UNKNOWN, AnswerWithConfidence, DecomposeQuery, DisambiguateQuery, RewriteQuery

__all__ = ["RQRAG"]

_ACTIONS = ("rewrite", "decompose", "disambiguate")


class RQRAG(Program):
    """Refine the query in three ways at every node of a tree, answer at every node, select among the answers.

    Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", sections 2.1 and 2.3, figure 8,
    appendices B.2 (depths) and B.4 (three passages per step); single actions of figure 4b, strategies of figure 3.

    The paper's model is trained to write the refined queries; here they are written in context. Every node carries an
    answer, the root (which retrieves nothing) included: 1 + 3 + 9 = 13 answers at depth 2, for 25 calls of the
    language model and 12 retrievals. A node reads the passages of all its steps.

    The trajectory is selected (section 2.3) by the lowest `perplexity` of the generated text (queries and answer), the
    highest `confidence` in the answer, or the highest sum of confidences per answer (`ensemble`). Confidence is the
    probability of the answer's tokens; the paper sums log-probabilities, which would punish agreement. Ties go to the
    earliest path, breadth first. If token log-probabilities are missing for one answer, the confidences that the model
    states replace them for all, under every strategy, and the trace says so.

    The released code takes the perplexity of the whole sequence, prompt and passages included (here: of the generated
    text), the mean probability of the likeliest tokens as confidence (here: the answer's own probability), and sums it
    over exactly equal answers (here: apart from case, punctuation, articles). Beyond the paper: a query that repeats
    one of its path is not followed; `beam_width` and `max_leaves` bound deep trees and do not bind at the paper's
    depths. If the beam binds, a level is answered before it grows.

    The upper bound of section 2.3 (some trajectory is right) is the metric `upper_bound` on the prediction's `answers`.

    Args:
        retriever: the index to search. On multi-hop data, the paper searches each question's own candidates only.
        **kwargs: `concurrent` and hyperparameters.
    """

    name = "rq_rag"
    presets: ClassVar = {
        "open_domain": {"depth": 2, "strategy": "confidence"},
        "multiple_choice": {"depth": 2, "strategy": "confidence", "style": "choice"},
        "multi_hop": {"depth": 2, "strategy": "ensemble"},  # HotpotQA
        "multi_hop_deep": {"depth": 4, "strategy": "ensemble"},  # 2WikiMultihopQA and MuSiQue
    }

    depth = Integer(2, "refinements on the longest path (appendix B.2)", low=0, high=5)
    top_k = Integer(3, "passages retrieved per query (appendix B.4)", low=1, high=20)
    actions = Choice(
        "all",
        "how queries are refined: in all three ways or in one (figure 4b)",
        choices=("all", *_ACTIONS),
    )
    strategy = Choice("ensemble", "how the trajectory is chosen (section 2.3)", choices=STRATEGIES)
    beam_width = Integer(27, "nodes of a level that are refined at most, best first", low=1, high=81)
    max_leaves = Integer(121, "answers in the whole tree at most", low=1, high=364)
    logprobs = Choice("auto", "ask for token log-probabilities, or never", choices=("auto", "never"), tune=False)
    style = Choice("short", "how the answer is worded", choices=tuple(STYLES), tune=False)

    def __init__(self, retriever: Retriever | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
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
        actions = _ACTIONS if self.actions == "all" else (self.actions,)
        with_tokens = self.logprobs == "auto"  # under every strategy, so that a study's cache serves all three
        leaves: list[Trajectory] = []
        level, reason = [Trajectory()], "depth"
        for depth in range(self.depth + 1):
            self.begin_iteration(depth + 1)
            unanswered, parents = level, level if depth < self.depth else []
            if len(parents) > self.beam_width:  # the answers tell which nodes are best
                level, _ = self._expand(question, level, [], with_tokens)
                unanswered, parents = [], self._beam(level)
            growth = [(node, action) for node in parents for action in actions]
            room = self.max_leaves - len(leaves) - len(level)
            if len(growth) > room:
                growth, reason = growth[:room], "leaves"
            answered, children = self._expand(question, unanswered, growth, with_tokens)
            leaves += answered or level
            # A backend that refused to give log-probabilities is not asked for them on the next level.
            with_tokens = with_tokens and not any(node.refused for node in [*leaves, *children])
            if not children:
                reason = "no new query" if growth else reason
                break
            level = self._retrieve_for(children)
        self.record(Stopped(reason=reason))
        return self._select(leaves)

    def _expand(
        self,
        question: str,
        unanswered: Sequence[Trajectory],
        growth: Sequence[tuple[Trajectory, str]],
        with_tokens: bool,
    ) -> tuple[list[Trajectory], list[Trajectory]]:
        """Answer at some nodes and refine the query at others, all at once; returns answered nodes and children."""
        answers = [functools.partial(self._answer, question, node, with_tokens) for node in unanswered]
        refinements = [functools.partial(self._refine, question, node, action, with_tokens) for node, action in growth]
        branches = [node.name for node in unanswered] + [_child_path(node, action) for node, action in growth]
        tasks: list[Callable[[], Trajectory | None]] = [*answers, *refinements]
        nodes = run_concurrently(tasks, branches)
        return [node for node in nodes[: len(answers)] if node], [node for node in nodes[len(answers) :] if node]

    def _refine(self, question: str, node: Trajectory, action: str, with_tokens: bool) -> Trajectory | None:
        """Make a child of `node` with a refined query and no new passages yet; None without a new query."""
        inputs = {"question": question, "searched": node.queries, "passages": node.passages}
        reply = ask_for_tokens(self, getattr(self, action), with_tokens, **inputs)
        queries, repeated = clean_lines([text_of(reply.output, "query")], 1, node.queries)
        if not queries:
            if repeated:
                self.record(Rejected(what=repeated[0], why="searched before on this path"))
            return None
        self.record(Refined(action=action, query=queries[0]))
        return Trajectory(
            path=_child_path(node, action),
            queries=[*node.queries, *queries],
            passages=node.passages,
            generated=_all_generated(node, reply.logprobs_of("query")),
            refused=reply.refused,
        )

    def _retrieve_for(self, children: Sequence[Trajectory]) -> list[Trajectory]:
        """Search for the children's queries; their passages follow those of their parents."""
        results = self.retrieve([node.queries[-1] for node in children], self.top_k)
        return [
            replace(node, passages=distinct([*node.passages, *(hit.passage for hit in hits)]))
            for node, hits in zip(children, results, strict=True)
        ]

    def _answer(self, question: str, node: Trajectory, with_tokens: bool) -> Trajectory:
        """The node with its answer, which is empty if the reply cannot be read."""
        inputs = {"question": question, "passages": node.passages, "style": STYLES[self.style]}
        reply = ask_for_tokens(self, self.answer, with_tokens, **inputs)
        logprobs = reply.logprobs_of("answer")
        node = replace(
            node,
            answer=text_of(reply.output),
            generated=_all_generated(node, logprobs),
            answer_logprob=sum(logprobs.value) if logprobs else None,
            stated=probability_of(reply.output),
            refused=reply.refused,
        )
        if node.answer:
            ids = [passage.id for passage in node.passages]
            self.record(Answered(answer=node.answer, confidence=node.confidence, passages=ids))
        return node

    def _beam(self, level: Sequence[Trajectory]) -> list[Trajectory]:
        """The best nodes of an answered level, in the order of their paths."""
        weights, _ = trajectory_weights(self.strategy, level)
        best = sorted(range(len(level)), key=lambda i: (-weights[i], i))[: self.beam_width]
        return [level[i] for i in sorted(best)]

    def _select(self, leaves: Sequence[Trajectory]) -> dspy.Prediction:
        """Select the trajectory and answer with it."""
        selection = select_trajectory(self.strategy, leaves)
        if selection is None:
            selection = Selection(Trajectory(answer=UNKNOWN), {}, False, [])
        elif not selection.measured:
            why = "they were not asked for" if self.logprobs == "never" else "they did not come back for every answer"
            if any(leaf.refused for leaf in leaves):
                why = "the language model refused them"
            self.record(Judged(what="token log-probabilities", value=False, reason=f"{why}; stated confidence instead"))
        best = selection.best
        self.record(Selected(strategy=self.strategy, answer=best.answer, scores=selection.scores))
        return self.conclude(
            best.answer,
            best.passages,
            confidence=best.confidence,
            path=best.name,
            queries=best.queries,
            measure="token log-probabilities" if selection.measured else "stated confidence",
            answers=[leaf.answer for leaf in selection.leaves],
            leaves=[leaf.to_dict() for leaf in selection.leaves],
        )


def _child_path(node: Trajectory, action: str) -> str:
    return f"{node.path}/{action}" if node.path else action


def _all_generated(node: Trajectory, logprobs: FieldLogprobs | None) -> list[float] | None:
    """Log-probabilities of all that the node's path and its next reply generated; None if some are unknown."""
    return None if node.generated is None or logprobs is None else node.generated + logprobs.generated
