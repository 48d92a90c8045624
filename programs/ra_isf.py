"""RA-ISF: answer from own knowledge, else from relevant passages, else from the answers to sub-questions."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import dspy

from knowgap.programs.base import Program
from knowgap.programs.filtering import resolve_threshold
from knowgap.programs.hyperparameters import Integer, Switch, Threshold
from knowgap.programs.passages import cited, distinct
from knowgap.programs.replies.text import clean_lines, known_text
from knowgap.programs.trace.recorder import RECORDER, run_concurrently
from knowgap.programs.trace.steps import Answered, Asked, Judged, Queried, Stopped
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.retrieval.rerankers.reranker import Reranker
from knowgap.signatures import STYLES, UNKNOWN, Decompose, JointRelevance, PassageRelevance, SelfKnowledge, Solve
from knowgap.signatures.types import SubAnswer


class Solution(NamedTuple):
    """The answer to a question or sub-question, and what it rests on."""

    answer: str
    passages: Sequence[Passage] = ()
    sub_answers: Sequence[SubAnswer] = ()


class RAISF(Program):
    """Answer what is known, else read what is relevant, else break the question down and start again with each part.

    Source: "RA-ISF: Learning to Answer and Understand from Retrieval Augmentation via Iterative Self-Feedback", section
    3.3 and algorithm 1; section 4.5 (D_th = 3), figure 3 and table 5 (five passages), ablations of table 2. Departures:
    docs/methods/ra_isf.md. A question may lead to very many calls (the paper's "Limitation"); `max_calls` bounds them.

    The predictors `know`, `relevant` and `decompose` are the paper's sub-models, and `answer` its language model. Each
    may have a language model of its own (`program.know.lm = …`), such as `knowgap train ra-isf` makes; the arguments
    set it. A saved program names such models by folder.

    Args:
        know: the language model that judges whether an answer is known (M_know); default: the configured one.
        relevant: the language model, or a cross-encoder with its threshold, that judges passages (M_rel).
        decompose: the language model that writes sub-questions (M_decom).

    >>> import knowgap
    >>> knowgap.RAISF(depth=1).depth
    1
    """

    name = "ra_isf"
    calls = "2 to 680"
    adds: ClassVar = {"sub_answers": []}
    presets: ClassVar = {
        "multi_hop": {"style": "short"},
        "open_domain": {"style": "short"},
        "commonsense": {"style": "yes_no"},
    }
    part_names = ("retriever", "cross_encoder")
    sub_models: ClassVar = {"know": "know", "relevant": "relevance_model", "decompose": "decompose"}

    top_k = Integer(5, "passages judged per question (figure 3)", low=1, high=20, when={"passage_relevance": [True]})
    depth = Integer(
        3, "rounds of decomposition (D_th, figure 2)", low=0, high=5, when={"question_decomposition": [True]}
    )
    judge_together = Switch(False, "judge all passages at once (tables 5 and 9)", when={"passage_relevance": [True]})
    self_knowledge = Switch(True, "answer at once what the model knows itself (SKM, table 2)")
    passage_relevance = Switch(True, "answer from retrieved passages judged relevant (PRM, table 2)", tune=False)
    question_decomposition = Switch(True, "break down what remains open (QDM, table 2)", tune=False)
    know_threshold = Threshold("know", "knows", "probability of a known answer", when={"self_knowledge": [True]})
    relevance_threshold = Threshold(
        "relevant", "relevant", "probability of a relevant passage", when={"passage_relevance": [True]}
    )

    def __init__(
        self,
        retriever: RetrieverLike | None = None,
        *,
        know: dspy.BaseLM | None = None,
        relevant: dspy.BaseLM | Reranker | None = None,
        decompose: dspy.BaseLM | None = None,
        **hyperparameters: Any,
    ):
        super().__init__(retriever, **hyperparameters)
        self.know = dspy.Predict(SelfKnowledge)
        self.relevant = dspy.Predict(PassageRelevance)
        self.joint = dspy.Predict(JointRelevance)
        self.decompose = dspy.Predict(Decompose)
        self.answer = dspy.Predict(Solve)
        self.cross_encoder = relevant if isinstance(relevant, Reranker) else None
        self.know.lm, self.decompose.lm = know, decompose
        self.relevant.lm = self.joint.lm = None if isinstance(relevant, Reranker) else relevant

    @property
    def relevance_model(self) -> Any:
        """The cross-encoder that judges passages, or else the language model of their own; None for the configured."""
        return self.cross_encoder or self.relevant.lm

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `sub_answers`: the answers to the questions it was broken into."""
        answer, passages, sub_answers = self.solve(question, 0)
        return self.conclude(answer, distinct(passages), sub_answers=list(sub_answers))

    def solve(self, question: str, depth: int) -> Solution:
        """Algorithm 1: solve a question that is `depth` decompositions below the user's."""
        self.begin_iteration(depth + 1)
        if depth:
            self.record(Asked(question=question))
        if depth > self.depth:  # lines 1 to 3
            return self._solved("depth", depth, UNKNOWN)
        if self.self_knowledge and self._knows(question):  # lines 4 to 6
            return self._solved("own knowledge", depth, self._answer(question, depth))
        relevant = self._relevant(question) if self.passage_relevance else []  # lines 7 to 11
        if relevant:  # lines 12 to 14
            return self._solved("relevant passages", depth, self._answer(question, depth, relevant), relevant)
        if not self.question_decomposition:  # section 5.2
            return self._solved("no decomposition", depth, UNKNOWN)
        parts = self._decompose(question)  # line 15
        tasks = [functools.partial(self.solve, part, depth + 1) for part in parts]  # lines 16 to 19
        solved = run_concurrently(tasks, [str(number + 1) for number in range(len(parts))])
        sub_answers = [SubAnswer(question=part, answer=s.answer) for part, s in zip(parts, solved, strict=True)]
        answer = self._answer(question, depth, sub_answers=sub_answers)  # lines 20 and 21
        reason = "sub-answers" if parts else "no sub-question"
        return self._solved(reason, depth, answer, [p for s in solved for p in s.passages], sub_answers)

    def last_answer(self, question: str, passages: list[Passage]) -> dspy.Prediction:
        """As for every program, with the answers to sub-questions that were found so far."""
        trace = RECORDER.get().steps
        asked = {step.branch: step.question for step in trace if isinstance(step, Asked)}
        solved = [step for step in trace if isinstance(step, Answered)]
        sub_answers = [SubAnswer(question=asked[step.branch], answer=step.answer) for step in solved]
        return self.conclude(self._answer(question, 0, passages, sub_answers), passages, sub_answers=sub_answers)

    def _solved(self, reason: str, depth: int, answer: str, *rest: Any) -> Solution:
        """Record why and how a question was solved."""
        solution = Solution(answer, *rest)
        self.record(Stopped(reason=reason))
        if depth:  # `conclude` records the answer to the user's question
            self.record(Answered(answer=answer, passages=[passage.id for passage in solution.passages]))
        return solution

    def _knows(self, question: str) -> bool:
        """Whether the answer is known (M_know)."""
        output = self.ask(self.know, question=question)
        known = output is not None and bool(output.knows)
        self.record(Judged(what="self-knowledge", value=known))
        return known

    def _relevant(self, question: str) -> list[Passage]:
        """Retrieve passages, and return the relevant ones (M_rel)."""
        passages, model = self.retrieve_passages(question, self.top_k), self.cross_encoder
        if self.judge_together and model is None:
            return self._relevant_together(question, passages)
        if model is not None:
            scores = model.score([(question, str(passage)) for passage in passages])
            wanted = self.relevance_threshold  # a probability; the scores are logits
            limit = resolve_threshold(model, None) if wanted is None else wanted
            scores = [s if wanted is None else (1 + math.tanh(s / 2)) / 2 for s in scores]
            verdicts = [self._judged(each, s >= limit) for each, s in zip(passages, scores, strict=True)]
        else:
            verdicts = run_concurrently([functools.partial(self._is_relevant, question, each) for each in passages])
        return [passage for passage, verdict in zip(passages, verdicts, strict=True) if verdict]

    def _is_relevant(self, question: str, passage: Passage) -> bool:
        """Whether a passage is relevant."""
        output = self.ask(self.relevant, inlined=[passage], question=question, passage=str(passage))
        return self._judged(passage, output is not None and bool(output.relevant))

    def _judged(self, passage: Passage, relevant: bool) -> bool:
        self.record(Judged(what="relevance", value=relevant, passage=passage.id))
        return relevant

    def _relevant_together(self, question: str, passages: Sequence[Passage]) -> list[Passage]:
        """The relevant ones of passages that are judged in one prompt; none if they are not sufficient."""
        output = self.ask(self.joint, question=question, passages=list(passages)) if passages else None
        named = cited(passages, output.relevant_ids or ()) if output is not None else []
        sufficient = output is not None and bool(output.answerable)
        for passage in passages:
            self._judged(passage, passage in named)
        self.record(Judged(what="sufficient", value=sufficient))
        return [passage for passage in passages if passage in named and sufficient]

    def _decompose(self, question: str) -> list[str]:
        """The sub-questions of a question (M_decom), as many as the model writes."""
        output = self.ask(self.decompose, question=question)
        lines = (output.questions or []) if output is not None else []
        questions, _ = clean_lines(lines, len(lines))
        if questions:
            self.record(Queried(how="decomposed into", queries=questions))
        return questions

    def _answer(
        self, question: str, depth: int, passages: Sequence[Passage] = (), sub_answers: Sequence[SubAnswer] = ()
    ) -> str:
        """What the language model answers by equation 2, 3 or 4; `unknown` if nothing can be read."""
        given = {"passages": list(passages), "sub_answers": list(sub_answers)}
        style = STYLES["short"] if depth else self.wording
        output = self.ask(self.answer, last=not depth, question=question, **given, style=style)
        return known_text(output) or UNKNOWN
