"""RQ-RAG: a tree of refined queries, and a choice among the answers of its trajectories."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer
from knowgap.programs.logprobs import FieldLogprobs, ask_for_tokens, field_logprobs
from knowgap.programs.outputs import clean_lines, probability_of
from knowgap.programs.reading.passage_numbering import distinct
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Answered, Judged, Refined, Rejected, Selected, Stopped
from knowgap.programs.trajectory import STRATEGIES, Selection, Trajectory, select_trajectory, trajectory_weights
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.signatures import STYLES, UNKNOWN, AnswerWithConfidence, DecomposeQuery, DisambiguateQuery, RewriteQuery

__all__ = ["RQRAG"]

_ACTIONS = ("rewrite", "decompose", "disambiguate")


class _Reply(NamedTuple):
    text: str = ""
    logprobs: FieldLogprobs | None = None
    stated: float = 0.0
    refused: bool = False


class RQRAG(Program):
    """Refine the query in three ways at every node of a tree, answer at every node, choose among the answers.

    Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", sections 2.1 and 2.3, figure 8,
    appendices B.2 (depths) and B.4 (three passages per step); single actions of figure 4b, strategies of figure 3.

    The paper's model is trained to write the refined queries; here they are written in context. Every node carries an
    answer, the root (which retrieves nothing) included: 1 + 3 + 9 = 13 answers at depth 2, for 25 calls of the
    language model and 12 retrievals. A node reads the passages of all its steps.

    The trajectory is chosen (section 2.3) by the lowest `perplexity` of the generated text (queries and answer), the
    highest `confidence` in the answer, or the highest sum of confidences per answer (`ensemble`). Confidence is the
    probability of the answer's tokens; the paper sums log-probabilities, which would punish agreement. Ties go to the
    earliest path, breadth first. Where token log-probabilities do not come back for every answer, the confidence that
    the model states stands in for all, under every strategy, and the trace says so.

    Where the released code departs from the paper: it takes the perplexity of the whole sequence, prompt and passages
    included (here: of what was generated), the mean probability of the likeliest tokens as confidence (here: the
    answer's own probability), and sums it over exactly equal answers (here: apart from case, punctuation, articles).
    Beyond the paper: a query already searched on its own path is not followed; `beam_width` and `max_leaves` bound
    deep trees and do not bind at the paper's depths. Where the beam binds, a level is answered before it grows.

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

        The prediction adds `confidence` (0 to 1), `path` and `queries` of the chosen trajectory, `measure` ("token
        log-probabilities" or "stated confidence"), `answers` (of all trajectories, for the upper bound) and `leaves`
        (a record of each trajectory: path, queries, answer, confidence, perplexity, ids of its passages).
        """
        actions = _ACTIONS if self.actions == "all" else (self.actions,)
        with_tokens = self.logprobs == "auto"
        leaves: list[Trajectory] = []
        level, reason = [Trajectory()], "depth"
        for depth in range(self.depth + 1):
            self.begin_iteration(depth + 1)
            waiting, parents = level, level if depth < self.depth else []
            if len(parents) > self.beam_width:  # which are best shows in their answers
                level, _ = self._at_level(question, level, [], with_tokens)
                waiting, parents = [], self._beam(level)
            room = self.max_leaves - len(leaves) - len(level)
            growth = [(node, action) for node in parents for action in actions]
            if len(growth) > room:
                growth, reason = growth[:room], "leaves"
            answered, children = self._at_level(question, waiting, growth, with_tokens)
            leaves += answered or level
            # A backend that refused to give log-probabilities is not asked for them on the next level.
            with_tokens = with_tokens and not any(node.refused for node in [*leaves, *children])
            if not children:
                reason = "no new query" if growth else reason
                break
            level = self._retrieved(children)
        self.record(Stopped(reason=reason))
        return self._chosen(leaves)

    def _at_level(
        self,
        question: str,
        waiting: Sequence[Trajectory],
        growth: Sequence[tuple[Trajectory, str]],
        with_tokens: bool,
    ) -> tuple[list[Trajectory], list[Trajectory]]:
        """Answer at the `waiting` nodes and refine the query at those that grow, all at once.

        Returns:
            The waiting nodes with their answers, and the children.
        """
        tasks: list[Callable[[], Trajectory | None]] = [
            functools.partial(self._answered, question, node, with_tokens) for node in waiting
        ]
        tasks += [functools.partial(self._refined, question, node, action, with_tokens) for node, action in growth]
        names = [node.name for node in waiting] + [_child(node.path, action) for node, action in growth]
        done = run_concurrently(tasks, names)
        return [node for node in done[: len(waiting)] if node], [node for node in done[len(waiting) :] if node]

    def _refined(self, question: str, node: Trajectory, action: str, with_tokens: bool) -> Trajectory | None:
        """A child of `node` with a query of its own, nothing retrieved yet; None where no new query was written."""
        inputs = {"question": question, "searched": node.queries}
        reply = self._reply(getattr(self, action), "query", node.passages, with_tokens, **inputs)
        queries, repeated = clean_lines([reply.text], 1, node.queries)
        if not queries:
            if repeated:
                self.record(Rejected(what=repeated[0], why="searched before on this path"))
            return None
        self.record(Refined(action=action, query=queries[0]))
        return Trajectory(
            path=_child(node.path, action),
            queries=[*node.queries, queries[0]],
            passages=node.passages,
            generated=_together(node.generated, reply.logprobs),
            refused=reply.refused,
        )

    def _retrieved(self, children: Sequence[Trajectory]) -> list[Trajectory]:
        """The children with what their queries found, behind what their parents had."""
        found = self.retrieve([node.queries[-1] for node in children], self.top_k)
        return [
            replace(node, passages=distinct([*node.passages, *(hit.passage for hit in hits)]))
            for node, hits in zip(children, found, strict=True)
        ]

    def _answered(self, question: str, node: Trajectory, with_tokens: bool) -> Trajectory:
        """The node with its answer; without one where the reply could not be read."""
        inputs = {"question": question, "style": STYLES[self.style]}
        reply = self._reply(self.answer, "answer", node.passages, with_tokens, **inputs)
        node = replace(
            node,
            answer=reply.text,
            generated=_together(node.generated, reply.logprobs),
            answer_logprob=sum(reply.logprobs.value) if reply.logprobs else None,
            stated=reply.stated,
            refused=reply.refused,
        )
        if node.answer:
            ids = [passage.id for passage in node.passages]
            self.record(Answered(answer=node.answer, confidence=node.confidence, passages=ids))
        return node

    def _reply(
        self, predictor: dspy.Module, wanted: str, passages: Sequence[Passage], with_tokens: bool, **inputs: Any
    ) -> _Reply:
        """Ask for the output field `wanted`, with its log-probabilities; without, where the backend refuses them."""
        # Under every strategy, so that the calls stay the same and a study's cache serves all three.
        output, tokens, refused = ask_for_tokens(self, predictor, with_tokens, passages=passages, **inputs)
        if output is None:
            return _Reply(refused=refused)
        text = (output[wanted] or "").strip()
        return _Reply(text, field_logprobs(tokens, wanted, text), probability_of(output), refused)

    def _beam(self, level: Sequence[Trajectory]) -> list[Trajectory]:
        """The best nodes of an answered level, in the order of their paths."""
        weights, _ = trajectory_weights(self.strategy, level)
        best = sorted(range(len(level)), key=lambda i: (-weights[i], i))[: self.beam_width]
        return [level[i] for i in sorted(best)]

    def _chosen(self, leaves: Sequence[Trajectory]) -> dspy.Prediction:
        """Choose the trajectory and answer with it."""
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


def _child(path: str, action: str) -> str:
    return f"{path}/{action}" if path else action


def _together(before: list[float] | None, new: FieldLogprobs | None) -> list[float] | None:
    return None if before is None or new is None else before + new.generated
