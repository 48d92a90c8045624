"""Metrics that ask a language model about an answer: whether it is right, and RAGQuestEval.

RAGQuestEval asks whether the answer says what the reference says (CRUD-RAG: Lyu et al., 2024; Adaptive-Note, appendix
C). Questions are drawn from the reference answer and answered twice, once from the reference and once from the
prediction. Questions that the reference itself does not answer are left out. Question recall (Q-R) is the fraction of
the others that the prediction answers; token precision, recall and F1 (T-P, T-R, T-F1) compare the two answers,
averaged over the questions that the prediction answers. CRUD-RAG segments Chinese with jieba; here every ideograph is
a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import dspy
from dspy.utils.exceptions import AdapterParseError

from knowgap.compiling.evaluation.metrics.normalize import overlap, predicted_answer, reference_answers
from knowgap.errors import DataError, UnknownName
from knowgap.programs.passages import split_words
from knowgap.programs.replies.asking import call_predictor
from knowgap.signatures import AnswerFromText, JudgeAnswer, QuestionsOnText

_UNANSWERED = frozenset({"", "unanswerable", "无法推断"})


def _judging(lm: dspy.BaseLM | None) -> AbstractContextManager[Any]:
    """A context without DSPy's trace, so that a judge's calls do not become demonstrations of a program."""
    return dspy.context(trace=None, **({"lm": lm} if lm is not None else {}))


class JudgedAccuracy:
    """1.0 if a language model finds that the prediction implies a reference, else 0.0 (MIGRES, Acc†, table 11).

    Args:
        lm: the language model that judges; default: the one in DSPy's settings.
    """

    def __init__(self, lm: dspy.BaseLM | None = None) -> None:
        self.lm, self.judge = lm, dspy.Predict(JudgeAnswer)

    def __call__(self, example: Any, prediction: Any, trace: Any = None) -> float:
        """Ask the judge once, showing it all acceptable answers.

        A prediction without an answer scores 0 and is not shown; an unreadable verdict scores 0 as well.
        """
        answer = predicted_answer(prediction)
        if answer is None:
            return 0.0
        asked = {"question": example.question, "prediction": answer}
        with _judging(self.lm):
            try:
                verdict = call_predictor(self.judge, **asked, reference=" or ".join(reference_answers(example)))
            except AdapterParseError:
                return 0.0
        return float(verdict.correct is True)


class QuestScores(NamedTuple):
    """The four scores of a prediction, each in [0, 1]."""

    question_recall: float = 0.0
    token_precision: float = 0.0
    token_recall: float = 0.0
    token_f1: float = 0.0


def compare_answers(references: Sequence[str], answers: Sequence[str]) -> QuestScores:
    """Score a prediction's answers to questions against the reference's; all scores are 0 if nothing can be compared.

    An answer that is blank, `unanswerable` or `无法推断` is none, and neither is one that is missing.
    """
    padded = [*answers, *[""] * (len(references) - len(answers))]
    usable = [(r, a) for r, a in zip(references, padded, strict=False) if r.strip() not in _UNANSWERED]
    answered = [(r, a) for r, a in usable if a.strip() not in _UNANSWERED]
    if not answered:
        return QuestScores()
    scores = [overlap(split_words(answer.lower()), split_words(reference.lower())) for reference, answer in answered]
    means = [sum(column) / len(scores) for column in zip(*scores, strict=True)]
    return QuestScores(len(answered) / len(usable), *means)


class RAGQuestEval:
    """One of the four scores of RAGQuestEval, measured by asking a language model.

    If an example has `quest_questions` and `quest_answers`, they are the questions and the reference's answers.

    Args:
        score: a field of `QuestScores`.
        lm: the language model; default: the one in DSPy's settings.
    """

    def __init__(self, score: str = "token_f1", lm: dspy.BaseLM | None = None) -> None:
        if score not in QuestScores._fields:
            raise UnknownName.among("score of RAGQuestEval", score, QuestScores._fields)
        self.field, self.lm = score, lm
        self.__doc__ = f"RAGQuestEval's {score.replace('_', ' ')}: does the answer say what the reference says?"
        self.ask, self.answer = dspy.Predict(QuestionsOnText), dspy.Predict(AnswerFromText)

    def scores(self, example: Any, prediction: Any) -> QuestScores:
        """All four scores of a prediction; zeros without an answer, or if a reply of the judge cannot be read.

        Raises:
            DataError: no question could be drawn from the reference answer.
        """
        said = predicted_answer(prediction)
        if said is None:
            return QuestScores()
        try:
            with _judging(self.lm):
                return compare_answers(*self._answers(example, said))
        except AdapterParseError:
            return QuestScores()

    def _answers(self, example: Any, said: str) -> tuple[Sequence[str], Sequence[str]]:
        """The answers to the same questions that are drawn from the reference, and those from the prediction."""
        questions = getattr(example, "quest_questions", None)
        references = getattr(example, "quest_answers", None)
        if not questions or not references:
            questions = call_predictor(self.ask, text=example.answer).questions
            if not questions:
                raise DataError(f"no question could be drawn from the answer {example.answer!r}", field="answer")
            references = call_predictor(self.answer, text=example.answer, questions=questions).answers
        return references, call_predictor(self.answer, text=said, questions=questions).answers

    def __call__(self, example: Any, prediction: Any, trace: Any = None) -> float:
        """The chosen score of a prediction."""
        return getattr(self.scores(example, prediction), self.field)
