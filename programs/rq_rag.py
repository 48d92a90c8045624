"""RQ-RAG: grow a tree of refined queries and select among the answers of its trajectories."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer, OptionalReal, Switch
from knowgap.programs.logprobs import Token, TokenReply, ask_for_tokens
from knowgap.programs.outputs import clean_lines, probability_of, text_of
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Answered, Judged, Refined, Rejected, Selected, Stopped
from knowgap.programs.trajectory import STRATEGIES, Selection, Trajectory, select_trajectory, trajectory_weights
from knowgap.retrieval.passage import RetrieverLike
from knowgap.signatures import UNKNOWN, AnswerWithConfidence, DecomposeQuery, DisambiguateQuery, RewriteQuery

__all__ = ["RQRAG"]

_ACTIONS = ("rewrite", "decompose", "disambiguate")


class RQRAG(Program):
    """Refine the query in three ways at every node of a tree, answer at every node, select among the answers.

    Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", sections 2.1 and 2.3, figure 8,
    appendices B.2 (depths) and B.4 (three passages per step); single actions of figure 4b, strategies of figure 3.

    The paper's model is trained to write the refined queries; here they are written in context. Every node carries an
    answer, the root (which retrieves nothing) included: 1 + 3 + 9 = 13 answers at depth 2, for 25 calls of the
    language model and 12 retrievals. A node is refined and answered from the queries of its path and what each found.
    The levels are refined and searched one after the other; the answers, which nothing waits for, are asked for
    together at the end (3 calls in sequence at depth 2 instead of 5). Where `enough` or a full beam has to know them, a
    level is answered before it grows.

    The trajectory is selected (section 2.3) by the lowest `perplexity` of the generated text (the values of queries
    and answer, without the format around them), the highest `confidence` in the answer, or the highest sum of
    confidences per answer (`ensemble`, which tables 1 and 2 report). Confidence is the probability of the answer's
    tokens; the paper sums log-probabilities, which would punish agreement. If token log-probabilities are missing for
    one answer, the confidences that the model states replace them for all, under every strategy, and the trace says
    so. The paper does not say who wins a tie, which stated confidences often bring: not the root, which read nothing;
    then the answer of more trajectories, then the longer path.

    The released code takes the perplexity of the whole sequence, prompt and passages included, the mean probability of
    the likeliest tokens as confidence, and sums it over exactly equal answers (here: apart from case, punctuation,
    articles); ties go to the earliest path, which is the root. It samples queries at temperature 1 and answers greedily
    (`sample_queries`), and scores multiple choice on the token of the option (`score_option`).

    Beyond the paper: a query that repeats one of its path is not followed; below the root, a branch whose answer is
    sure `enough` grows no further; `beam_width` and `max_leaves` bound deep trees, but not at the paper's depths.

    The upper bound of section 2.3 (some trajectory is right) is the metric `upper_bound` on the prediction's `answers`.

    Args:
        retriever: the index to search. On multi-hop data, the paper searches each question's own candidates only.
        **kwargs: `concurrent` and hyperparameters.
    """

    name = "rq_rag"
    presets: ClassVar = {
        "open_domain": {"depth": 2, "strategy": "ensemble"},
        "multiple_choice": {"depth": 2, "strategy": "ensemble", "style": "choice"},
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
    enough = OptionalReal(
        None,
        "confidence from which a branch grows no further (none: it always grows)",
        low=0.0,
        high=1.0,
        search=(0.7, 1.0),
    )
    beam_width = Integer(27, "nodes of a level that are refined at most, best first", low=1, high=81)
    max_leaves = Integer(121, "answers in the whole tree at most", low=1, high=364)
    sample_queries = Switch(False, "sample queries at temperature 1 and answer greedily, as the released code does")
    score_option = Switch(
        False,
        "confidence in a choice is the probability of the option's token, as in the released code",
        when={"style": ["choice"]},
    )
    logprobs = Choice("auto", "ask for token log-probabilities, or never", choices=("auto", "never"), tune=False)

    def __init__(self, retriever: RetrieverLike | None = None, **kwargs: Any):
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
        finished: list[Trajectory] = []
        level, reason = [Trajectory()], "depth"
        for iteration in range(1, self.depth + 1):
            self.begin_iteration(iteration)
            level, parents = self._growing(question, level)
            growth, room = self._growth(parents), self.max_leaves - len(finished) - len(level)
            if len(growth) > room:
                growth, reason = growth[:room], "leaves"
            children = self._refine_all(question, growth)
            if not children:
                reason = "enough" if not parents else "no new query" if growth else reason
                break
            finished += level
            level = self._retrieve_for(children)
        else:
            self.begin_iteration(self.depth + 1)
        leaves = self._answer_all(question, [*finished, *level])
        self.record(Stopped(reason=reason))
        return self._select(leaves)

    def _growing(self, question: str, level: list[Trajectory]) -> tuple[list[Trajectory], list[Trajectory]]:
        """A level, answered where the answers decide which of its nodes are refined; and these nodes."""
        is_root = not level[0].path
        if is_root or (self.enough is None and len(level) <= self.beam_width):
            return level, level
        level = self._answer_all(question, level)
        return level, self._beam([node for node in level if self.enough is None or node.confidence < self.enough])

    def _beam(self, level: list[Trajectory]) -> list[Trajectory]:
        """The best nodes of an answered level, in the order of their paths."""
        weights, _ = trajectory_weights(self.strategy, level)
        best = sorted(range(len(level)), key=lambda i: (-weights[i], i))[: self.beam_width]
        return [level[i] for i in sorted(best)]

    def _growth(self, parents: Sequence[Trajectory]) -> list[tuple[Trajectory, str]]:
        """Each node with each action."""
        return [(node, act) for node in parents for act in (_ACTIONS if self.actions == "all" else (self.actions,))]

    def _refine_all(self, question: str, growth: Sequence[tuple[Trajectory, str]]) -> list[Trajectory]:
        """Refine the query at nodes, at once; returns children with a new query and no new passages yet."""
        with_tokens = self._with_tokens(node for node, _ in growth)
        tasks = [functools.partial(self._refine, question, node, action, with_tokens) for node, action in growth]
        children = run_concurrently(tasks, [_child_path(node, action) for node, action in growth])
        return [child for child in children if child is not None]

    def _refine(self, question: str, node: Trajectory, action: str, with_tokens: bool) -> Trajectory | None:
        """Make a child of `node`; None without a new query."""
        temperature = 1.0 if self.sample_queries else None
        reply = self._ask(node, getattr(self, action), with_tokens, temperature, question=question)
        queries, repeated = clean_lines([text_of(reply.output, "query")], 1, node.queries)
        if not queries:
            if repeated:
                self.record(Rejected(what=repeated[0], why="searched before on this path"))
            return None
        self.record(Refined(action=action, query=queries[0]))
        return Trajectory(
            path=_child_path(node, action),
            searches=(*node.searches, (queries[0], ())),
            generated=_generated(node, reply.tokens_of("query")),
            refused=node.refused or reply.refused,
        )

    def _retrieve_for(self, children: Sequence[Trajectory]) -> list[Trajectory]:
        """Search for the newest query of each child."""
        results = self.retrieve([node.queries[-1] for node in children], self.top_k)
        return [
            replace(node, searches=(*node.searches[:-1], (node.queries[-1], tuple(hit.passage for hit in hits))))
            for node, hits in zip(children, results, strict=True)
        ]

    def _answer_all(self, question: str, nodes: Sequence[Trajectory]) -> list[Trajectory]:
        """All nodes with their answers; those without one yet are asked for it, at once."""
        open_nodes = [node for node in nodes if node.answer is None]
        with_tokens = self._with_tokens(nodes)
        tasks = [functools.partial(self._answer, question, node, with_tokens) for node in open_nodes]
        answered = iter(run_concurrently(tasks, [node.name for node in open_nodes]))
        return [next(answered) if node.answer is None else node for node in nodes]

    def _answer(self, question: str, node: Trajectory, with_tokens: bool) -> Trajectory:
        """The node with its answer, which is empty if the reply cannot be read."""
        temperature = 0.0 if self.sample_queries else None
        reply = self._ask(node, self.answer, with_tokens, temperature, question=question, style=self.wording)
        tokens = reply.tokens_of("answer")
        scored = tokens if tokens is None or not self._scores_option else _option(tokens)
        node = replace(
            node,
            answer=text_of(reply.output),
            generated=_generated(node, tokens),
            answer_logprobs=None if scored is None else tuple(token.logprob for token in scored),
            stated=probability_of(reply.output),
            refused=node.refused or reply.refused,
        )
        if node.answer:
            ids = [passage.id for passage in node.passages]
            self.record(Answered(answer=node.answer, confidence=node.confidence, passages=ids))
        return node

    def _ask(
        self, node: Trajectory, predictor: dspy.Module, with_tokens: bool, temperature: float | None, **inputs: Any
    ) -> TokenReply:
        """Ask about a node: with the queries of its path and what each found."""
        inputs |= {"searched": node.searched, "passages": node.passages}
        return ask_for_tokens(self, predictor, with_tokens, temperature=temperature, **inputs)

    def _with_tokens(self, nodes: Iterable[Trajectory]) -> bool:
        """Whether log-probabilities are asked for: not of a backend that has refused to give them.

        They are asked for under every strategy, so that a study's cache serves all three.
        """
        return self.logprobs == "auto" and not any(node.refused for node in nodes)

    @property
    def _scores_option(self) -> bool:
        return self.score_option and self.style == "choice"

    def _select(self, leaves: Sequence[Trajectory]) -> dspy.Prediction:
        """Select the trajectory and answer with it."""
        selection = select_trajectory(self.strategy, leaves)
        if selection is None:
            selection = Selection(Trajectory(), {}, False, [])
        elif not selection.measured:
            why = "they were not asked for" if self.logprobs == "never" else "they did not come back for every answer"
            if any(leaf.refused for leaf in leaves):
                why = "the language model refused them"
            self.record(Judged(what="token log-probabilities", value=False, reason=f"{why}; stated confidence instead"))
        best = selection.best
        answer = best.answer or UNKNOWN
        self.record(Selected(strategy=self.strategy, answer=answer, scores=selection.scores))
        return self.conclude(
            answer,
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


def _generated(node: Trajectory, tokens: Sequence[Token] | None) -> tuple[float, ...] | None:
    """Log-probabilities of all values that the node's path and its next reply generated; None if some are unknown."""
    if node.generated is None or tokens is None:
        return None
    return (*node.generated, *(token.logprob for token in tokens))


def _option(tokens: Sequence[Token]) -> list[Token]:
    """The token that names the option: the first one with a letter or digit."""
    named = (token for token in tokens if any(char.isalnum() for char in token.spelling.decode(errors="ignore")))
    return [next(named, tokens[0])]
