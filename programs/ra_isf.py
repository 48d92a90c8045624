"""RA-ISF: answer from own knowledge, else from relevant passages, else from the answers to sub-questions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import dspy

from knowgap.errors import UsageError
from knowgap.lms.cancelling import check_cancelled
from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Integer, Switch, Threshold
from knowgap.programs.passages import cited, distinct
from knowgap.programs.replies.outputs import clean_lines, known_text
from knowgap.programs.shortening import shorten_answer
from knowgap.programs.sub_modules import (
    REFERENCE,
    Decomposer,
    RelevanceJudge,
    SelfKnowledgeJudge,
    Solution,
    SubQuestion,
    judged_by,
    ready_questions,
    same_question,
)
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Answered, Asked, Decomposed, Judged, Rejected, Stopped
from knowgap.retrieval.passage import Passage, RetrieverLike
from knowgap.signatures import (
    INTERMEDIATE,
    UNKNOWN,
    AnswerDirectly,
    AnswerFromRelevant,
    ChainedDecompose,
    Decompose,
    DecomposeOpen,
    JointRelevance,
    PassageRelevance,
    ReadRelevant,
    SelfKnowledge,
    SubAnswer,
    Synthesise,
    SynthesiseAll,
)
from knowgap.signatures.values import strip_list_marks

_ALGORITHM_1 = {
    "depth": 3,
    "chained": False,
    "self_knowledge": True,
    "judge_together": False,
    "pass_on": False,
    "may_leave_open": False,
}
"""The paper's settings."""


class RAISF(Program):
    """Answer from the passages that help; if they do not settle it, break the question down and start again.

    Source: "RA-ISF: Learning to Answer and Understand from Retrieval Augmentation via Iterative Self-Feedback",
    section 3.3 and algorithm 1; ablations of table 2 and figure 2.

    1. Self-knowledge (off by default): if the model knows the answer, it answers directly.
    2. Passage relevance: retrieve, judge the passages, and answer from the relevant ones if they settle it.
    3. Decomposition: write sub-questions, solve each of them by the same algorithm, and combine their answers.
       Sub-questions that wait for nothing are solved at the same time.
    4. A question that is still open after `depth` decompositions is `unknown`.

    Each of the three sub-modules prompts the configured language model, one that is given here or, with precedence, one
    that is set as `program.know.lm` and so on. It may also be a small model trained for it (section 3.2,
    `knowgap train ra-isf`): a judgement is yes if its label's probability reaches the model's own threshold, or
    `know_threshold` or `relevance_threshold` if set. Saved programs name trained models by folder; language models
    given here are not saved. Departures from the paper: docs/methods/ra_isf.md.

    Args:
        know: trained model or language model of the self-knowledge module (M_know); default: the configured one.
        relevant: that of the passage-relevance module (M_rel).
        decompose: that of the question-decomposition module (M_decom).

    Raises:
        UsageError: a trained model is given for `relevant`, but `judge_together` is on or `passage_relevance` is off,
            so that it has no effect.

    >>> import knowgap
    >>> knowgap.RAISF(depth=1).depth
    1
    """

    name = "ra_isf"
    calls = "1 to 127"
    presets: ClassVar = {
        "multi_hop": {**_ALGORITHM_1, "style": "short"},
        "open_domain": {**_ALGORITHM_1, "style": "short"},
        "commonsense": {**_ALGORITHM_1, "style": "yes_no"},
    }
    part_names = ("retriever", "know_model", "relevance_model", "decomposition_model")
    sub_models: ClassVar = {
        "know": "know_model",
        "relevant": "relevance_model",
        "decompose": "decomposition_model",
    }

    top_k = Integer(
        5, "passages retrieved and judged per question (figure 3)", low=1, high=20, when={"passage_relevance": [True]}
    )
    depth = Integer(
        3,
        "decompositions on the way to a sub-question at most (D_th, figure 2)",
        low=0,
        high=5,
        when={"question_decomposition": [True]},
    )
    max_questions = Integer(
        4, "sub-questions per decomposition at most", low=1, high=6, when={"question_decomposition": [True]}
    )
    chained = Switch(
        True, "let sub-questions refer to the answers of earlier ones", when={"question_decomposition": [True]}
    )
    judge_together = Switch(
        True,
        "judge all passages in one prompt, and whether they are sufficient (table 5)",
        when={"passage_relevance": [True]},
    )
    read_together = Switch(
        True,
        "answer in the same reply that judges all passages",
        when={"passage_relevance": [True], "judge_together": [True]},
    )
    pass_on = Switch(
        True,
        "let decomposition, sub-questions and synthesis see what was found for the question above",
        when={"passage_relevance": [True], "question_decomposition": [True]},
    )
    may_leave_open = Switch(
        True,
        "let the reader of relevant passages say that they do not settle the question, which is then broken down",
        when={"passage_relevance": [True]},
    )
    self_knowledge = Switch(False, "answer at once what the model knows itself (SKM, table 2); on if `know` is given")
    passage_relevance = Switch(True, "answer from retrieved passages judged relevant (PRM, table 2)", tune=False)
    question_decomposition = Switch(True, "break down what remains open (QDM, table 2)", tune=False)
    know_threshold = Threshold(
        "know",
        "knows",
        "probability from which the model counts as knowing the answer; none asks for a plain yes or no",
        when={"self_knowledge": [True]},
    )
    relevance_threshold = Threshold(
        "relevance",
        "relevant",
        "probability from which a passage is relevant; none asks for a plain yes or no",
        when={"passage_relevance": [True], "judge_together": [False]},
    )

    def __init__(
        self,
        retriever: RetrieverLike | None = None,
        *,
        know: SelfKnowledgeJudge | dspy.BaseLM | None = None,
        relevant: RelevanceJudge | dspy.BaseLM | None = None,
        decompose: Decomposer | dspy.BaseLM | None = None,
        **kwargs: Any,
    ):
        given = {} if know is None else {"self_knowledge": True}
        given |= {"judge_together": False} if isinstance(relevant, RelevanceJudge) else {}
        super().__init__(retriever, **{**given, **kwargs})
        self.know_model, self.relevance_model, self.decomposition_model = know, relevant, decompose
        if isinstance(relevant, RelevanceJudge) and (why := self.ignores("relevant")):
            raise UsageError(f"relevant = {relevant.name}: {why}")
        self.know = dspy.Predict(SelfKnowledge)
        self.relevance = dspy.Predict(PassageRelevance)
        self.judge_all = dspy.Predict(JointRelevance)
        self.judge_and_read = dspy.Predict(ReadRelevant)
        self.decompose_open = dspy.Predict(DecomposeOpen)
        self.decompose_apart = dspy.Predict(Decompose)
        self.chain = dspy.Predict(ChainedDecompose)
        self.answer = dspy.Predict(AnswerDirectly)
        self.read = dspy.Predict(AnswerFromRelevant)
        self.synthesise = dspy.Predict(Synthesise)
        self.synthesise_all = dspy.Predict(SynthesiseAll)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `sub_answers`: the answers to the questions it was broken into."""
        root = SubQuestion(question)
        asked = [root]
        while root.solution is None:
            ready = ready_questions(root, asked)
            run_concurrently([functools.partial(self._solve_step, node) for node in ready], [n.branch for n in ready])
        answer, passages, sub_answers = root.solution
        return dspy.Prediction(answer=answer, passages=distinct(passages), sub_answers=list(sub_answers))

    def _solve_step(self, node: SubQuestion) -> None:
        """Algorithm 1 for one question that waits for nothing: find its solution, or its sub-questions."""
        self.begin_iteration(len(node.path) + 1)
        if node.parts:
            self._solve(node, self._from_sub_answers(node), "sub-answers")
            return
        if node.path:
            self.record(Asked(question=node.question))
        if node.twin is not None and node.twin.solution is not None:
            self._solve(node, node.twin.solution, "asked before")
        elif node.circular or node.earlier:
            why = "waits for its own answer" if node.circular else "refers to an answer that is unknown"
            self.record(Rejected(what=node.question, why=why))
            self._solve(node, Solution(UNKNOWN), why)
        elif self.self_knowledge and (solution := self._from_knowledge(node)):
            self._solve(node, solution, "own knowledge")
        elif self.passage_relevance and (solution := self._from_passages(node)):
            self._solve(node, solution, "relevant passages")
        elif not self.question_decomposition or len(node.path) >= self.depth:
            reason = "depth" if self.question_decomposition else "no decomposition"
            self._solve(node, node.guess or Solution(UNKNOWN), reason)
        else:
            self._decompose(node)
            if not node.parts:
                asks = self.self_knowledge or not node.path
                own = None if node.guess or not asks else self._directly(node)
                self._solve(node, node.guess or own or Solution(UNKNOWN), "no sub-question")

    def _solve(self, node: SubQuestion, solution: Solution, reason: str) -> None:
        self.record(Stopped(reason=reason))
        if not node.path:
            solution = solution._replace(answer=shorten_answer(self, solution.answer, node.question))
        node.solution = solution
        self.record(Answered(answer=solution.answer, passages=[passage.id for passage in solution.passages]))

    def _style(self, node: SubQuestion) -> str:
        return INTERMEDIATE if node.path else self.wording

    def _directly(self, node: SubQuestion) -> Solution:
        """The model's own answer (equation 2); `unknown` if it cannot be read."""
        answer = known_text(self.ask(self.answer, question=node.question, style=self._style(node), leave=_leave(node)))
        return Solution(answer or UNKNOWN)

    def _from_knowledge(self, node: SubQuestion) -> Solution | None:
        """Self-knowledge inference (equation 2); None if the model does not know."""
        if isinstance(model := self.know_model, SelfKnowledgeJudge):
            check_cancelled()
            [probability] = model.knows([node.question])
            step = judged_by(model, "self-knowledge", probability, self.know_threshold)
        else:
            output = self._ask(self.know, model, question=node.question, leave=1)
            step = Judged(what="self-knowledge", value=output is not None and bool(output.knows))
        self.record(step)
        solution = self._directly(node) if step.value else None
        return solution if solution is not None and solution.answer != UNKNOWN else None

    def _from_passages(self, node: SubQuestion) -> Solution | None:
        """Passage-relevance inference (equation 3); None if no passage is relevant or they do not settle it."""
        passages = distinct([*node.given, *self.retrieve_passages(node.question, self.top_k)])
        if self.judge_together and self.read_together and self.relevance_model is None:
            return self._read_together(node, passages)
        if isinstance(self.relevance_model, RelevanceJudge):
            relevant = self._relevant_by(self.relevance_model, node.question, passages)
        else:
            relevant = (self._relevant_together if self.judge_together else self._relevant)(node.question, passages)
        node.relevant = relevant
        if not relevant:
            return None
        inputs = {"question": node.question, "passages": relevant, "style": self._style(node)}
        output = self.ask(self.read, **inputs, leave=_leave(node))
        answer, answerable = known_text(output), self._settles(output)
        node.guess = Solution(answer, relevant) if answer else None
        return node.guess if answerable else None

    def _read_together(self, node: SubQuestion, passages: list[Passage]) -> Solution | None:
        """Which passages are relevant, what they answer, and whether they settle it, in one reply."""
        if not passages:
            return None
        inputs = {"question": node.question, "passages": passages, "style": self._style(node)}
        output = self.ask(self.judge_and_read, **inputs, leave=_leave(node))
        named = cited(passages, output.relevant_ids or ()) if output is not None else []
        for passage in passages:
            self.record(Judged(what="relevance", value=passage in named, passage=passage.id))
        answer, answerable = known_text(output), self._settles(output)
        node.relevant = [passage for passage in passages if passage in named]
        node.guess = Solution(answer, node.relevant) if answer and node.relevant else None
        return Solution(answer, node.relevant or passages) if answer and answerable else None

    def _settles(self, output: dspy.Prediction | None) -> bool:
        """Whether an answer from passages settles a question: its reader says so, or `may_leave_open` is off."""
        settles = output is not None and (bool(output.answerable) or not self.may_leave_open)
        self.record(Judged(what="answerable", value=settles))
        return settles

    def _relevant_by(self, model: RelevanceJudge, question: str, passages: Sequence[Passage]) -> list[Passage]:
        """The passages that a trained model, judging each by itself, finds relevant (appendix A.2)."""
        check_cancelled()
        probabilities = model.relevant([(question, str(passage)) for passage in passages])
        relevant = []
        for passage, probability in zip(passages, probabilities, strict=True):
            step = judged_by(model, "relevance", probability, self.relevance_threshold, passage.id)
            self.record(step, passage)
            relevant += [passage] if step.value else []
        return relevant

    def _relevant(self, question: str, passages: Sequence[Passage]) -> list[Passage]:
        """The passages that the language model, judging each by itself, finds relevant (appendix A.2)."""

        def judge(passage: Passage) -> bool:
            inputs = {"question": question, "passage": str(passage)}
            output = self._ask(self.relevance, self.relevance_model, inlined=[passage], **inputs, leave=1)
            unasked = output is None and not self.may_go_on()
            relevant = unasked or (output is not None and bool(output.relevant))
            self.record(Judged(what="relevance", value=relevant, passage=passage.id), passage)
            return relevant

        judgements = run_concurrently([functools.partial(judge, passage) for passage in passages])
        return [passage for passage, relevant in zip(passages, judgements, strict=True) if relevant]

    def _relevant_together(self, question: str, passages: Sequence[Passage]) -> list[Passage]:
        """The passages found relevant in one judgement of all (table 5); none if they are not sufficient."""
        if not passages:
            return []
        output = self._ask(self.judge_all, self.relevance_model, question=question, passages=list(passages), leave=1)
        if output is None and not self.may_go_on():
            return list(passages)
        named = cited(passages, output.relevant_ids or ()) if output is not None else []
        for passage in passages:
            self.record(Judged(what="relevance", value=passage in named, passage=passage.id))
        sufficient = output is not None and bool(output.answerable)
        self.record(Judged(what="sufficient", value=sufficient))
        return [passage for passage in passages if passage in named] if sufficient else []

    def _decompose(self, node: SubQuestion) -> None:
        """Problem decomposition: write sub-questions, none of which repeats one above, and resolve their references."""
        lines = strip_list_marks(self._written_questions(node))
        path = (*node.path, node.question)
        questions, _ = clean_lines(lines, self.max_questions, path)
        model = self.decomposition_model
        self.record(Decomposed(questions=questions, by=model.name if isinstance(model, Decomposer) else ""))
        numbered = [(n, line) for n, line in enumerate(lines, start=1) if line.strip()]
        positions = {n: i for n, line in numbered for i, kept in enumerate(questions) if same_question(line, kept)}
        for n, line in numbered:
            if n not in positions:
                above = any(same_question(line, question) for question in path)
                self.record(Rejected(what=line, why="asked above" if above else "over the limit of sub-questions"))
        said = set(REFERENCE.findall(node.question)) if self.chained else set()  # such as a "#1 hit"
        for i, question in enumerate(questions):
            branch = "/".join(filter(None, (node.branch, str(i + 1))))
            part = SubQuestion(question, path, branch, given=node.relevant if self.pass_on else ())
            for mark in REFERENCE.findall(question) if self.chained else ():
                if mark not in said and positions.get(int(mark), i) < i:
                    part.earlier[int(mark)] = node.parts[positions[int(mark)]]
            node.parts.append(part)

    def _written_questions(self, node: SubQuestion) -> list[str]:
        """The sub-questions that the model writes; if `chained` is off, a trained model's references are rejected."""
        if isinstance(model := self.decomposition_model, Decomposer):
            check_cancelled()
            [written] = model.decompose([node.question])
            usable = [line for line in written if self.chained or not REFERENCE.search(line)]
            for line in written:
                if line not in usable:
                    self.record(Rejected(what=line, why="refers to an answer, and chained is off"))
            return usable
        inputs: dict[str, Any] = {"question": node.question, "max_questions": self.max_questions, "leave": 2}
        if self.pass_on and self.chained:
            guess = node.guess.answer if node.guess is not None else ""
            inputs |= {"passages": list(node.relevant), "guess": guess}
            predictor = self.decompose_open
        else:
            predictor = self.chain if self.chained else self.decompose_apart
        output = self._ask(predictor, model, **inputs)
        if output is not None and len(output.questions or ()) > self.max_questions:  # ask again before any is dropped
            again = self._ask(predictor, model, **inputs, config={"temperature": 1.0, "rollout_id": 1})
            output = again or output
        return [str(line) for line in (output.questions if output is not None else None) or ()]

    def _from_sub_answers(self, node: SubQuestion) -> Solution:
        """The answer to a question from those to its parts (equation 4)."""
        solved = [(part.question, part.solution) for part in node.parts if part.solution is not None]
        sub_answers = [
            SubAnswer(question=question, answer="" if solution.answer == UNKNOWN else solution.answer)
            for question, solution in solved
        ]
        inputs = {"question": node.question, "sub_answers": sub_answers, "style": self._style(node)}
        found = distinct([*node.relevant, *(p for part in node.parts for p in part.relevant)]) if self.pass_on else []
        nothing_new = len(found) == len(node.relevant) and not any(pair.answer for pair in sub_answers)
        if self.pass_on and node.guess is not None:
            if nothing_new:
                return node.guess
            if same_question(sub_answers[-1].answer, node.guess.answer):  # the last part confirms the guess
                return Solution(node.guess.answer, found, sub_answers)
        if self.pass_on:
            answer = known_text(self.ask(self.synthesise_all, **inputs, passages=found, leave=_leave(node)))
        else:
            answer = known_text(self.ask(self.synthesise, **inputs, leave=_leave(node)))
        if not answer:
            return node.guess or self._directly(node)
        passages = distinct([*found, *(p for _, solution in solved for p in solution.passages)])
        return Solution(answer, passages, sub_answers)

    def _ask(self, predictor: dspy.Predict, lm: Any, **inputs: Any) -> dspy.Prediction | None:
        """Ask a sub-module, with its own language model if it has one."""
        with dspy.context(lm=lm) if lm is not None else contextlib.nullcontext():
            return self.ask(predictor, **inputs)

    def ignores(self, argument: str) -> str:
        """Why a model given as `know`, `relevant` or `decompose` currently has no effect; empty if it has one."""
        switches = {"know": "self_knowledge", "relevant": "passage_relevance", "decompose": "question_decomposition"}
        if not getattr(self, switch := switches[argument]):
            return f"{switch} is off"
        together = argument == "relevant" and self.judge_together
        return "judge_together asks a language model: a trained model judges each passage by itself" if together else ""


def _leave(node: SubQuestion) -> int:
    """The calls to leave after answering a question: none for the user's question, one for a sub-question."""
    return int(bool(node.path))
