"""RQ-RAG: grow a tree of refined queries and select among the answers of its trajectories."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer, OptionalReal, Switch
from knowgap.programs.logprobs import Token, ask_for_tokens
from knowgap.programs.replies.generator import Generator, Transcript, Written, count_written, write_branches
from knowgap.programs.replies.outputs import clean_lines, probability_of, text_of
from knowgap.programs.trace.recorder import current_recorder, run_concurrently
from knowgap.programs.trace.steps import Answered, Judged, Malformed, Refined, Rejected, Retrieved, Selected, Stopped
from knowgap.programs.trajectory import (
    STRATEGIES,
    BranchReply,
    Selection,
    Trajectory,
    select_trajectory,
    trajectory_weights,
)
from knowgap.retrieval.passage import RetrieverLike
from knowgap.signatures import (
    UNKNOWN,
    AnswerWithConfidence,
    DecomposeQuery,
    DisambiguateQuery,
    RefineQuery,
    RewriteQuery,
)
from knowgap.signatures.values import is_unknown

_ACTIONS = ("rewrite", "decompose", "disambiguate")
_PAPERS_TREE = {"top_k": 3, "actions": "all", "stop_confidence": None, "answer_once": False}
_OPTION = re.compile(r"^\s*\(?([A-Za-z0-9])[.):]\s", re.MULTILINE)
"""The beginning of a lettered option in a question."""


class _Query(NamedTuple):
    """The question, and its transcript if a generator writes one."""

    question: str
    transcript: Transcript | None


_Branch = tuple[Trajectory, str]
"""A node and what is written there: a query by one of the actions, or the "answer"."""


class RQRAG(Program):
    """Grow a tree of refined queries, answer at its nodes, select among the answers.

    Source: "RQ-RAG: Learning to Refine Queries for Retrieval Augmented Generation", sections 2.1 and 2.3, figure 8,
    appendices B.2 (depths) and B.4 (three passages per step); single actions of figure 4b, strategies of figure 3.
    With the paper's settings:

    1. The root is the question, with which nothing is retrieved. At each node, a rewritten, a decomposed and a
       disambiguated query are written from the queries of its path and what they found; each query retrieves passages
       and makes a child.
    2. Every node is answered: 1 + 3 + 9 = 13 answers at depth 2, for 25 calls of the model (3 of them in sequence) and
       12 retrievals. Answers that no later level waits for are asked for together at the end.
    3. One trajectory is selected: by the lowest `perplexity` of the generated text, the highest `confidence` in the
       answer, or the highest sum of confidences per answer (`ensemble`).

    Confidence is the probability of the answer's tokens. If log-probabilities are missing for one answer, the
    confidences that the model states replace them for all, and the trace says so. A `generator` is a model that was
    trained to write the queries and answers in one transcript (`knowgap train rq-rag` makes one). The upper bound of
    section 2.3 is the metric `upper_bound` on the prediction's `answers`. Departures from the paper:
    docs/methods/rq_rag.md.

    Args:
        retriever: the index to search. On multi-hop data, the paper searches each question's own candidates only.
        generator: a model that was trained on transcripts; None asks the language model. A generator is shown no
            demonstrations.

    >>> import knowgap
    >>> knowgap.RQRAG(depth=2, beam_width=2).depth
    2
    """

    name = "rq_rag"
    calls = "3 to 10"
    part_names = ("retriever", "generator")
    sub_models: ClassVar = {"generator": "generator"}
    presets: ClassVar = {
        "open_domain": {"depth": 2, "strategy": "ensemble", **_PAPERS_TREE},
        "multiple_choice": {"depth": 2, "strategy": "ensemble", **_PAPERS_TREE, "style": "choice"},
        "multi_hop": {"depth": 2, "strategy": "ensemble", **_PAPERS_TREE},  # HotpotQA
        "multi_hop_deep": {"depth": 4, "strategy": "ensemble", **_PAPERS_TREE},  # 2WikiMultihopQA and MuSiQue
    }

    depth = Integer(4, "refinements on the longest path (appendix B.2: 2 or 4)", low=0, high=5)
    top_k = Integer(5, "passages retrieved per query (appendix B.4: 3)", low=1, high=20)
    actions = Choice(
        "needed",
        "how queries are refined: as the model finds needed, in one call, in all three ways, or in one (figure 4b)",
        choices=("needed", "all", *_ACTIONS),
    )
    max_queries = Integer(
        1, "queries at a node at most, if the model chooses", low=1, high=3, when={"actions": ["needed"]}
    )
    strategy = Choice(
        "supported",
        "how the trajectory is chosen: the answer that its passages support best, or as in section 2.3",
        choices=STRATEGIES,
    )
    stop_confidence = OptionalReal(
        0.9,
        "confidence in an answer from which the search ends (none: it never does)",
        low=0.0,
        high=1.0,
        search=(0.7, 1.0),
    )
    answer_once = Switch(True, "answer once where several paths have found the same passages")
    beam_width = Integer(27, "nodes of a level that are refined at most, best first", low=1, high=81)
    max_leaves = Integer(121, "answers in the whole tree at most", low=1, high=364)
    sample_queries = Switch(False, "sample queries at temperature 1 and answer greedily, as the released code does")
    score_option = Switch(
        False,
        "confidence in a choice is the probability of the option's token, as in the released code",
        when={"style": ["choice"]},
    )
    logprobs = Choice("auto", "ask for token log-probabilities, or never", choices=("auto", "never"), tune=False)

    def __init__(self, retriever: RetrieverLike | None = None, *, generator: Generator | None = None, **kwargs: Any):
        super().__init__(retriever, **kwargs)
        self.generator = generator
        self.refine = dspy.Predict(RefineQuery)
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
        transcript = self.generator.start(question, self.wording) if self.generator is not None else None
        query = _Query(question, transcript)
        finished: list[Trajectory] = []
        level, reason = [Trajectory()], "depth"
        for iteration in range(1, self.depth + 1):
            self.begin_iteration(iteration)
            level, parents = self._nodes_to_refine(query, level)
            branches, room = self._branches(parents), self.max_leaves - len(finished) - len(level)
            if len(branches) > room:
                branches, reason = branches[:room], "leaves"
            children = self._refine_all(query, branches)[:room]
            if not children:
                reason = "enough" if not parents else "no new query" if branches else reason
                break
            children = self._retrieve_for(query, children)
            finished += level
            level = self._new_nodes(finished, children) if self.answer_once else children
            if not level:
                reason = "nothing new"
                break
        else:
            self.begin_iteration(self.depth + 1)
        leaves = self._answer_leaves(query, [*finished, *level])
        self.record(Stopped(reason=reason))
        return self._select(leaves)

    def _answered(self, question: str, prediction: dspy.Prediction) -> dspy.Prediction:
        """As for every program; if no query could be read, so that nothing was found, the question is searched for."""
        kinds = {type(step) for step in current_recorder().steps}
        unread = Malformed in kinds and Retrieved not in kinds and is_unknown(str(prediction.answer))
        if unread and self.depth and self.calls_left and self.generator is None:
            self.retrieve([question], self.top_k)
        return super()._answered(question, prediction)

    def _new_nodes(self, finished: Sequence[Trajectory], children: Sequence[Trajectory]) -> list[Trajectory]:
        """The children with passages that no other path has found together."""
        known = {node.found for node in finished}
        new: list[Trajectory] = []
        for node in children:
            if node.found in known:
                self.record(Rejected(what=node.queries[-1], why="another path has found the same passages"))
            else:
                known.add(node.found)
                new.append(node)
        return new

    def _answer_leaves(self, query: _Query, nodes: Sequence[Trajectory]) -> list[Trajectory]:
        """Answer all nodes or, with the strategy `supported`, only those with passages if one of them answers."""
        with_passages = [node for node in nodes if node.passages]
        if self.strategy == "supported" and with_passages:
            leaves = self._answer_all(query, with_passages)
            if any(leaf.answer for leaf in leaves):
                return leaves
        return self._answer_all(query, nodes)

    def _nodes_to_refine(self, query: _Query, level: list[Trajectory]) -> tuple[list[Trajectory], list[Trajectory]]:
        """Return a level and its nodes to refine; the level is answered first if the answers decide which these are."""
        is_root = not level[0].path
        if is_root or (self.stop_confidence is None and len(level) <= self.beam_width):
            return level, level
        level = self._answer_all(query, level)
        if self.stop_confidence is not None and any(self._support(node) >= self.stop_confidence for node in level):
            return level, []
        return level, self._beam(level)

    def _support(self, node: Trajectory) -> float:
        """The confidence in a node's answer that `stop_confidence` limits; a generator states none."""
        return node.stated if self.strategy == "supported" and self.generator is None else node.confidence

    def _beam(self, level: list[Trajectory]) -> list[Trajectory]:
        """The best nodes of an answered level, in the order of their paths."""
        weights, _ = trajectory_weights(self.strategy, level)
        best = sorted(range(len(level)), key=lambda i: (-weights[i], i))[: self.beam_width]
        return [level[i] for i in sorted(best)]

    def _branches(self, parents: Sequence[Trajectory]) -> list[_Branch]:
        """Each node with each action; a generator does not choose an action by itself, so it takes all of them."""
        actions = {"all": _ACTIONS, "needed": ("refine",) if self.generator is None else _ACTIONS}
        return [(node, action) for node in parents for action in actions.get(self.actions, (self.actions,))]

    def _refine_all(self, query: _Query, branches: Sequence[_Branch]) -> list[Trajectory]:
        """Refine the query at nodes concurrently; return children with a new query and no new passages yet."""
        if len(branches) > (spare := max(0, self.calls_left - 1)) and not self.may_go_on(len(branches)):
            branches = branches[: int(spare)]
        if branches and branches[0][1] == "refine":
            tasks = [functools.partial(self._refine_as_needed, query.question, node) for node, _ in branches]
            grown = run_concurrently(tasks, [node.path for node, _ in branches])
            return [child for children in grown for child in children]
        replies = self._replies(query, branches)
        tasks = [
            functools.partial(self._refine, *branch, reply) for branch, reply in zip(branches, replies, strict=True)
        ]
        children = run_concurrently(tasks, [_child_path(node, action) for node, action in branches])
        return [child for child in children if child is not None]

    def _refine(self, node: Trajectory, action: str, read_reply: Callable[[], BranchReply]) -> Trajectory | None:
        """Make a child of `node`; None without a new query."""
        reply = read_reply()
        queries, repeated = clean_lines([reply.text], 1, node.queries)
        if not queries:
            if repeated:
                self.record(Rejected(what=repeated[0], why="searched before on this path"))
            return None
        self.record(Refined(action=action, query=queries[0]))
        return _child(node, action, queries[0], reply.logprobs, reply.refused)

    def _refine_as_needed(self, question: str, node: Trajectory) -> list[Trajectory]:
        """The children of a node, with a query for each thing that the model finds missing; none if nothing is."""
        output = self.ask(
            self.refine,
            question=question,
            searched=node.searched,
            passages=node.passages,
            max_queries=self.max_queries,
            leave=1,
        )
        lines = output.queries or () if output is not None else ()
        queries, repeated = clean_lines(lines, len(lines), node.queries)
        for query in repeated:
            self.record(Rejected(what=query, why="searched before on this path, or written twice"))
        for query in queries[self.max_queries :]:
            self.record(Rejected(what=query, why="over the limit of queries at a node"))
        queries = queries[: self.max_queries]
        for query in queries:
            self.record(Refined(action="refine", query=query))
        return [_child(node, str(n), query) for n, query in enumerate(queries, start=1)]

    def _retrieve_for(self, query: _Query, children: Sequence[Trajectory]) -> list[Trajectory]:
        """Search for the newest query of each child."""
        results = self.retrieve([node.queries[-1] for node in children], self.top_k)
        level = []
        for node, hits in zip(children, results, strict=True):
            found = tuple(hit.passage for hit in hits)
            if query.transcript is not None and (room := query.transcript.read(node.path, found)) < len(found):
                left_out = [passage.id for passage in found[room:]]
                self.record(Rejected(what=node.queries[-1], why="no room in the transcript", passages=left_out))
                found = found[:room]
            level.append(replace(node, searches=(*node.searches[:-1], (node.queries[-1], found))))
        return level

    def _answer_all(self, query: _Query, nodes: Sequence[Trajectory]) -> list[Trajectory]:
        """All nodes with their answers; those without one are answered concurrently."""
        open_nodes = [node for node in nodes if node.answer is None]
        if len(open_nodes) > self.calls_left and not self.may_go_on(len(open_nodes) - 1):  # keep those that read most
            ranked = sorted(range(len(open_nodes)), key=lambda n: -len(open_nodes[n].passages))
            open_nodes = [open_nodes[n] for n in sorted(ranked[: int(self.calls_left)])]
        replies = self._replies(query, [(node, "answer") for node in open_nodes])
        tasks = [functools.partial(self._answer, *each) for each in zip(open_nodes, replies, strict=True)]
        answered = run_concurrently(tasks, [node.name for node in open_nodes], leave=0)
        by_path = {node.path: node for node in answered}
        return [by_path.get(node.path, node) for node in nodes]

    def _answer(self, node: Trajectory, read_reply: Callable[[], BranchReply]) -> Trajectory:
        """The node with its answer, which is empty if the reply cannot be read."""
        reply = read_reply()
        node = replace(
            node,
            answer=reply.text,
            generated=_generated(node, reply.logprobs),
            answer_logprobs=reply.scored,
            stated=reply.stated,
            refused=node.refused or reply.refused,
        )
        if node.answer:
            ids = [passage.id for passage in node.passages]
            self.record(Answered(answer=node.answer, confidence=node.confidence, passages=ids))
        return node

    def _replies(self, query: _Query, branches: Sequence[_Branch]) -> list[Callable[[], BranchReply]]:
        """For each branch, a function to call within it that returns its reply; a generator writes all in one batch."""
        if query.transcript is None:
            # Log-probabilities are asked for under every strategy, so that a study's cache serves all three, but not
            # of a backend that has refused to give them.
            wanted = self.logprobs == "auto" and self.strategy != "supported"
            with_tokens = wanted and not any(node.refused for node, _ in branches)
            return [functools.partial(self._prompt, query.question, *branch, with_tokens) for branch in branches]
        answering = all(action == "answer" for _, action in branches)
        current_recorder().allot(len(branches), leave=int(not answering))
        letters = list(dict.fromkeys(_OPTION.findall(query.question))) if answering and self._scores_option else []
        written = write_branches(
            query.transcript,
            [(node.path, action) for node, action in branches],
            sample=self.sample_queries and not answering,
            letters=letters if len(letters) > 1 else (),
        )
        return [
            functools.partial(self._read_written, node, action, *each)
            for (node, action), each in zip(branches, written, strict=True)
        ]

    def _prompt(self, question: str, node: Trajectory, action: str, with_tokens: bool) -> BranchReply:
        """Ask the language model about a node: with the queries of its path and what each found."""
        answers = action == "answer"
        field, temperature = ("answer", 0.0) if answers else ("query", 1.0)
        inputs: dict[str, Any] = {"question": question, "searched": node.searched, "passages": node.passages}
        inputs |= {"style": self.wording} if answers else {}
        reply = ask_for_tokens(
            self,
            getattr(self, action),
            with_tokens,
            temperature=temperature if self.sample_queries else None,
            **inputs,
            leave=int(not answers),
        )
        tokens = reply.tokens_of(field)
        scored = _option(tokens) if tokens is not None and answers and self._scores_option else tokens
        return BranchReply(
            text_of(reply.output, field),
            _logprobs(tokens),
            _logprobs(scored),
            probability_of(reply.output),
            reply.refused,
        )

    def _read_written(self, node: Trajectory, action: str, written: Written, seconds: float) -> BranchReply:
        """Count and read what a generator wrote at a node."""
        count_written(written, seconds, node.passages)
        if written.problem:
            self.record(Malformed(act=action, problem=written.problem))
        return BranchReply(written.text, written.logprobs, written.logprobs)

    @property
    def _scores_option(self) -> bool:
        return self.score_option and self.style == "choice"

    def _select(self, leaves: Sequence[Trajectory]) -> dspy.Prediction:
        """Select the trajectory and answer with it."""
        selection = select_trajectory(self.strategy, leaves)
        if selection is None:
            selection = Selection(Trajectory(), {}, False, [])
        elif not selection.measured and self.strategy != "supported":
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


def _child(
    node: Trajectory, action: str, query: str, logprobs: tuple[float, ...] | None = None, refused: bool = False
) -> Trajectory:
    """A child of `node` with a new query and no new passages yet."""
    searches = (*node.searches, (query, ()))
    generated, refused = _generated(node, logprobs), node.refused or refused
    return Trajectory(_child_path(node, action), searches, generated, refused=refused)


def _generated(node: Trajectory, logprobs: tuple[float, ...] | None) -> tuple[float, ...] | None:
    """Log-probabilities of all values that the node's path and its next reply generated; None if some are unknown."""
    return None if node.generated is None or logprobs is None else (*node.generated, *logprobs)


def _logprobs(tokens: Sequence[Token] | None) -> tuple[float, ...] | None:
    return None if tokens is None else tuple(token.logprob for token in tokens)


def _option(tokens: Sequence[Token]) -> list[Token]:
    """The token that names the option: the first one with a letter or digit."""
    named = (token for token in tokens if any(char.isalnum() for char in token.spelling.decode(errors="ignore")))
    return [next(named, tokens[0])]
