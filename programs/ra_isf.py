"""RA-ISF: answer from own knowledge, else from relevant passages, else from the answers to sub-questions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import dspy

from knowgap.programs.base import Program
from knowgap.programs.hyperparameters import Choice, Integer, Switch, Threshold
from knowgap.programs.outputs import clean_lines, text_of
from knowgap.programs.reading.passage_numbering import distinct
from knowgap.programs.trace.recorder import run_concurrently
from knowgap.programs.trace.steps import Answered, Asked, Decomposed, Judged, Stopped
from knowgap.retrieval.passage import Passage, Retriever
from knowgap.signatures import (
    STYLES,
    UNKNOWN,
    AnswerDirectly,
    AnswerFromPassages,
    Decompose,
    PassageRelevance,
    SelfKnowledge,
    SubAnswer,
    Synthesise,
)

__all__ = ["RAISF"]


class _Solution(NamedTuple):
    """The answer to a question or sub-question, and what it rests on."""

    answer: str
    passages: Sequence[Passage] = ()
    sub_answers: Sequence[SubAnswer] = ()


class RAISF(Program):
    """Ask whether the model knows; if not, which passages help; if none, break the question down and start again.

    Source: "RA-ISF: Learning to Answer and Understand from Retrieval Augmentation via Iterative Self-Feedback",
    section 3.3 and algorithm 1; ablations of table 2 and figure 2.

    A question that neither knowledge nor passages settle is `unknown` at depth D_th, as in section 3.3 and in the
    variant without decomposition, D_th = 0 (section 5.2); algorithm 1 would first decompose it into sub-questions that
    are all past the depth. The depth grows with each level (released code: never). Each passage is judged by itself, as
    in algorithm 1 (table 5 shows one prompt for all five), and the answer is drawn from all relevant passages
    (equation 3). If an answer cannot be read or is `unknown`, the next module takes over. Sub-questions get short
    answers, whatever the style of the answer. A sub-question that repeats a question it came from is left out.

    The three sub-modules work in context, or each with a language model of its own, such as a small one trained for it
    (section 3.2): given here, or set as `program.know.lm` and so on, which takes precedence. Models given here are
    not saved with the program; DSPy's optimizers keep them.

    Args:
        retriever: the index to search.
        know_lm: language model of the self-knowledge module (M_know); default: the configured one.
        relevance_lm: language model of the passage-relevance module (M_rel).
        decompose_lm: language model of the question-decomposition module (M_decom).
        **kwargs: `concurrent` and hyperparameters.
    """

    name = "ra_isf"
    presets: ClassVar = {
        "multi_hop": {"depth": 3, "style": "short"},
        "open_domain": {"depth": 3, "style": "short"},
        "commonsense": {"depth": 3, "style": "yes_no"},
    }
    part_names = ("retriever", "know_lm", "relevance_lm", "decompose_lm")

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
    self_knowledge = Switch(True, "answer at once what the model knows itself (SKM, table 2)")
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
        when={"passage_relevance": [True]},
    )
    style = Choice("short", "how the answer is worded", choices=tuple(STYLES), tune=False)

    def __init__(
        self,
        retriever: Retriever | None = None,
        *,
        know_lm: dspy.LM | None = None,
        relevance_lm: dspy.LM | None = None,
        decompose_lm: dspy.LM | None = None,
        **kwargs: Any,
    ):
        super().__init__(retriever, **kwargs)
        self.know_lm, self.relevance_lm, self.decompose_lm = know_lm, relevance_lm, decompose_lm
        self.know = dspy.Predict(SelfKnowledge)
        self.relevance = dspy.Predict(PassageRelevance)
        self.decompose = dspy.Predict(Decompose)
        self.answer = dspy.Predict(AnswerDirectly)
        self.read = dspy.Predict(AnswerFromPassages)
        self.synthesise = dspy.Predict(Synthesise)

    def forward(self, question: str) -> dspy.Prediction:
        """Answer `question`; the prediction adds `sub_answers`: the answers to the questions it was broken into."""
        solution = self._solve(question, ())
        sub_answers = list(solution.sub_answers)
        return dspy.Prediction(answer=solution.answer, passages=distinct(solution.passages), sub_answers=sub_answers)

    def _solve(self, question: str, above: tuple[str, ...]) -> _Solution:
        """Algorithm 1 for a question that came out of the questions `above`, the first of them the user's."""
        self.begin_iteration(len(above) + 1)
        if above:
            self.record(Asked(question=question))
        style = STYLES["short" if above else self.style]
        solution, reason = None, ""
        if self.self_knowledge:
            solution, reason = self._from_knowledge(question, style), "own knowledge"
        if solution is None and self.passage_relevance:
            solution, reason = self._from_passages(question, style), "relevant passages"
        if solution is None:
            solution, reason = self._from_sub_questions(question, style, above)
        self.record(Stopped(reason=reason))
        self.record(Answered(answer=solution.answer, passages=[passage.id for passage in solution.passages]))
        return solution

    def _from_knowledge(self, question: str, style: str) -> _Solution | None:
        """Self-knowledge inference (equation 2); None if the model does not know."""
        output = self._ask(self.know, self.know_lm, question=question)
        knows = output is not None and bool(output.knows)
        self.record(Judged(what="self-knowledge", value=knows))
        if not knows:
            return None
        answer = _answer(self.ask(self.answer, question=question, style=style))
        return _Solution(answer) if answer != UNKNOWN else None

    def _from_passages(self, question: str, style: str) -> _Solution | None:
        """Passage-relevance inference (equation 3); None if no passage is relevant."""
        passages = self.retrieve_passages(question, self.top_k)
        judgements = run_concurrently([functools.partial(self._relevant, question, passage) for passage in passages])
        relevant = [passage for passage, value in zip(passages, judgements, strict=True) if value]
        if not relevant:
            return None
        answer = _answer(self.ask(self.read, question=question, passages=relevant, style=style))
        return _Solution(answer, relevant) if answer != UNKNOWN else None

    def _relevant(self, question: str, passage: Passage) -> bool:
        inputs = {"question": question, "passage": str(passage)}
        output = self._ask(self.relevance, self.relevance_lm, inlined=[passage], **inputs)
        relevant = output is not None and bool(output.relevant)
        self.record(Judged(what="relevance", value=relevant, passage=passage.id), passage)
        return relevant

    def _from_sub_questions(self, question: str, style: str, above: tuple[str, ...]) -> tuple[_Solution, str]:
        """Problem decomposition (equation 4): the solution, `unknown` at the depth limit, and how it came about."""
        if not self.question_decomposition:
            return _Solution(UNKNOWN), "no decomposition"
        if len(above) >= self.depth:
            return _Solution(UNKNOWN), "depth"
        output = self._ask(self.decompose, self.decompose_lm, question=question)
        path = (*above, question)
        questions, _ = clean_lines(output.questions if output is not None else None, self.max_questions, path)
        self.record(Decomposed(questions=questions))
        if not questions:
            return _Solution(UNKNOWN), "no sub-question"
        solutions = run_concurrently(
            [functools.partial(self._solve, sub_question, path) for sub_question in questions],
            branches=[str(number) for number in range(1, len(questions) + 1)],
        )
        sub_answers = [
            SubAnswer(question=sub_question, answer=solution.answer)
            for sub_question, solution in zip(questions, solutions, strict=True)
        ]
        answer = _answer(self.ask(self.synthesise, question=question, sub_answers=sub_answers, style=style))
        passages = distinct(passage for solution in solutions for passage in solution.passages)
        return _Solution(answer, passages, sub_answers), "sub-answers"

    def _ask(self, predictor: dspy.Predict, lm: dspy.LM | None, **inputs: Any) -> dspy.Prediction | None:
        """Ask a sub-module, with its own language model if it has one."""
        with dspy.context(lm=lm) if lm is not None else contextlib.nullcontext():
            return self.ask(predictor, **inputs)


def _answer(output: dspy.Prediction | None) -> str:
    """The answer; `unknown` if there is none."""
    text = text_of(output)
    return UNKNOWN if text.casefold().rstrip(". ") in ("", UNKNOWN) else text
