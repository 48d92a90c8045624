"""Metrics that ask a language model about an answer: whether it is right, and RAGQuestEval.

RAGQuestEval asks whether the answer says what the reference says (CRUD-RAG: Lyu et al., 2024; Adaptive-Note, appendix
C). Questions are drawn from the reference answer and answered twice, once from the reference and once from the
prediction. Questions that the reference itself does not answer are left out. Question recall (Q-R) is the fraction of
the others that the prediction answers; token precision, recall and F1 (T-P, T-R, T-F1) compare the two answers,
averaged over the questions that the prediction answers.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import dspy
from dspy.utils.exceptions import AdapterParseError

from knowgap.compiling.evaluation.metrics.normalize import predicted_answer, reference_answers
from knowgap.errors import DataError, UnknownName
from knowgap.programs.passages import split_words
from knowgap.programs.replies.asking import call_predictor
from knowgap.signatures import AnswerFromText, JudgeAnswer, QuestionsOnText

_UNANSWERED = frozenset({"", "unanswerable", "无法推断"})


class JudgedAccuracy:
    """1.0 if a language model finds that the prediction implies a reference, else 0.0 (MIGRES, Acc†, table 11).

    Args:
        judge: called with `question`, `prediction` and `reference`, returns an object with `correct: bool`; default: a
            `dspy.Predict` of `JudgeAnswer`.
        lm: the language model that judges; default: the one in DSPy's settings.
    """

    def __init__(self, judge: Callable[..., Any] | None = None, lm: dspy.BaseLM | None = None) -> None:
        self.judge = judge or functools.partial(call_predictor, dspy.Predict(JudgeAnswer))
        self.lm = lm

    def __call__(self, example: Any, prediction: Any, trace: Any = None) -> float:
        """Ask the judge once, showing it all acceptable answers.

        A prediction without an answer scores 0 and is not shown; an unreadable verdict scores 0 as well.
        """
        answer = predicted_answer(prediction)
        if answer is None:
            return 0.0
        reference = " or ".join(reference_answers(example))
        # Without a trace, so that the judge's call is no demonstration for the program that is being compiled.
        with dspy.context(trace=None, **({"lm": self.lm} if self.lm is not None else {})):
            try:
                verdict = self.judge(question=example.question, prediction=answer, reference=reference)
            except AdapterParseError:
                return 0.0
        return float(verdict.correct is True)


class QuestScores(NamedTuple):
    """The four scores of a prediction, each in [0, 1]."""

    question_recall: float = 0.0
    token_precision: float = 0.0
    token_recall: float = 0.0
    token_f1: float = 0.0


def split_tokens(text: str) -> list[str]:
    """Words, and single Chinese or Japanese ideographs; lower case, no punctuation."""
    return split_words(text.lower())


def compare_answers(
    references: Sequence[str], answers: Sequence[str], tokenize: Callable[[str], Sequence[str]] = split_tokens
) -> QuestScores:
    """Score answers drawn from a prediction against those drawn from the reference.

    Args:
        references: the reference's answers to the questions; blank, `unanswerable` or `无法推断` if it has none.
        answers: the prediction's, in the same order; missing ones count as unanswered.
        tokenize: splits an answer. CRUD-RAG segments with jieba: `tokenize=jieba.lcut` gives its figures.

    Returns:
        All four scores; 0 if nothing can be compared.
    """
    padded = [*answers, *[""] * (len(references) - len(answers))]
    usable = [(r, a) for r, a in zip(references, padded, strict=False) if r.strip() not in _UNANSWERED]
    answered = [(tokenize(r), tokenize(a)) for r, a in usable if a.strip() not in _UNANSWERED]
    if not answered:
        return QuestScores()
    scores = [_overlap(reference, answer) for reference, answer in answered]
    means = [sum(column) / len(scores) for column in zip(*scores, strict=True)]
    return QuestScores(len(answered) / len(usable), *means)


def _overlap(reference: Sequence[str], answer: Sequence[str]) -> tuple[float, float, float]:
    if not reference or not answer:
        equal = float(list(reference) == list(answer))
        return equal, equal, equal
    same = sum((Counter(reference) & Counter(answer)).values())
    precision, recall = same / len(answer), same / len(reference)
    return precision, recall, 2 * precision * recall / (precision + recall) if same else 0.0


class RAGQuestEval:
    """One of the four scores of RAGQuestEval, by asking a language model.

    Args:
        score: a field of `QuestScores`.
        ask: called with `text`, returns an object with `questions: list[str]`; default: a `dspy.Predict` of
            `QuestionsOnText`. Examples with `quest_questions` and `quest_answers` do not need it.
        answer: called with `text` and `questions`, returns an object with `answers: list[str]`; default: a
            `dspy.Predict` of `AnswerFromText`.
        lm: the language model for both; default: the one in DSPy's settings.
        tokenize: see `compare_answers`.
    """

    def __init__(
        self,
        score: str = "token_f1",
        *,
        ask: Callable[..., Any] | None = None,
        answer: Callable[..., Any] | None = None,
        lm: dspy.BaseLM | None = None,
        tokenize: Callable[[str], Sequence[str]] = split_tokens,
    ) -> None:
        if score not in QuestScores._fields:
            raise UnknownName.among("score of RAGQuestEval", score, QuestScores._fields)
        self.field = score
        self.__doc__ = f"RAGQuestEval's {score.replace('_', ' ')}: does the answer say what the reference says?"
        self.ask = ask or functools.partial(call_predictor, dspy.Predict(QuestionsOnText))
        self.answer = answer or functools.partial(call_predictor, dspy.Predict(AnswerFromText))
        self.lm, self.tokenize = lm, tokenize

    def scores(self, example: Any, prediction: Any) -> QuestScores:
        """All four scores of a prediction; zeros without an answer.

        Raises:
            DataError: no question could be drawn from the reference answer.
        """
        said = predicted_answer(prediction)
        if said is None:
            return QuestScores()
        # Without a trace, so that these calls are no demonstrations for the program that is being compiled.
        with dspy.context(trace=None, **({"lm": self.lm} if self.lm is not None else {})):
            questions = getattr(example, "quest_questions", None)
            references = getattr(example, "quest_answers", None)
            if not questions or not references:
                questions = self.ask(text=example.answer).questions
                if not questions:
                    raise DataError(f"no question could be drawn from the answer {example.answer!r}", field="answer")
                references = self.answer(text=example.answer, questions=questions).answers
            return compare_answers(references, self.answer(text=said, questions=questions).answers, self.tokenize)

    def __call__(self, example: Any, prediction: Any, trace: Any = None) -> float:
        """The chosen score of a prediction."""
        return getattr(self.scores(example, prediction), self.field)
